"""The checks behind the findings, each removed by a fault (`mutation.py` plants them), and the tests that then fail."""

from __future__ import annotations

from benchmarks.trust.faults import Fault

_DAMAGE, _START = "tests/runner/test_damage.py", "tests/cli/test_starting.py"
_KINDS = "every_kind or what_the_line_says"
_ANY = 'value("anything", lambda given: True)'
_RECORDS, _CHECKPOINT, _MAIN = "runner/integrity/records.py", "runner/checkpoint.py", "cli/main.py"
_MODULE = '    module = importlib.import_module(f"gems_jax.cli.commands.{COMMANDS[_command(argv[0])].module}")\n'


def _accepts_any(field: str, old: str, new: str) -> Fault:
    return Fault(f"{field}: anything is accepted", _RECORDS, old, new.replace("ANY", _ANY), (_DAMAGE,), _KINDS)


CHECKS = (
    _accepts_any("iterations", "iterations=POSITIVE,\n    config", "iterations=ANY,\n    config"),
    Fault("seeds: may be equal", _RECORDS, "least=1, distinct=True", "least=1", (_DAMAGE,), _KINDS),
    _accepts_any("chunk", '"chunk": POSITIVE', '"chunk": ANY'),
    _accepts_any("keep", '"keep": POSITIVE', '"keep": ANY'),
    _accepts_any("writers", '"writers": list_of(NAME)', '"writers": ANY'),
    _accepts_any("checkpoint_seconds", '"checkpoint_seconds": number(0)', '"checkpoint_seconds": ANY'),
    _accepts_any("members", "members=list_of(NAME, least=1)", "members=ANY"),
    _accepts_any("shared", "shared=NAME", "shared=ANY"),
    Fault(
        "metrics.csv: a cell that is text ends in a defect",
        "runner/writers.py",
        'except ValueError as error:\n        raise RunError(f"{path} is damaged: row',
        'except KeyError as error:\n        raise RunError(f"{path} is damaged: row',
        (_DAMAGE,),
        "text_cell",
    ),
    Fault(
        "files: bytes that are no text end in a defect",
        "runner/integrity/schema.py",
        "except UnicodeDecodeError as fault",
        "except UnicodeEncodeError as fault",
        (_DAMAGE,),
        _KINDS,
    ),
    Fault(
        "records: a missing field is accepted",
        "runner/integrity/schema.py",
        "missing = [name for name in required if name not in given]",
        "missing = []",
        (_DAMAGE,),
        _KINDS,
    ),
    Fault(
        "manifest: its checksum is not compared",
        _CHECKPOINT,
        'manifest.get("checksum") != checksum_record(manifest)',
        '"checksum" not in manifest',
        (_DAMAGE,),
        "gives_way",
    ),
    Fault("manifest: leaves of any kind", _RECORDS, "kind=_KIND", "kind=TEXT", (_DAMAGE,), "gives_way"),
    Fault(
        "metrics.csv: rows are not compared when a run is resumed",
        "runner/session.py",
        "checksum_text(kept) != checksum:",
        "not checksum:",
        (_DAMAGE,),
        "what_the_line_says",
    ),
    Fault(
        "links: may leave the folder",
        "runner/integrity/links.py",
        "if os.path.commonpath([root, target]) != root:",
        "if not target:",
        (_DAMAGE,),
        _KINDS,
    ),
    Fault(
        "games: a class needs none of the members",
        "games/adapters/own.py",
        "missing = missing_members(found)",
        "missing = []",
        ("tests/runner/test_trust.py",),
        "only_games",
    ),
    Fault(
        "games: attributes of any type",
        "games/adapters/own.py",
        "if not isinstance(found, kind) or (kind",
        "if isinstance(found, bool) and (kind",
        (_START,),
        "not_a_game",
    ),
    Fault("paths: too long ends in a defect", _MAIN, "(errno.ENAMETOOLONG, ", "(", (_START,), "system_refuses"),
    Fault(
        "train: the folder is made after the imports",
        _MAIN,
        f'    if argv[0] == "train":\n        starting.begin(argv[1:])\n{_MODULE}',
        f'{_MODULE}    if argv[0] == "train":\n        starting.begin(argv[1:])\n',
        (_START,),
        "before_jax",
    ),
    Fault(
        "errors: text in the temporary folder itself",
        _MAIN,
        'Path(tempfile.mkdtemp(prefix="gems_jax-"))',
        "Path(tempfile.gettempdir())",
        (_START,),
        "traceback",
    ),
    Fault(
        "errors: text outside of the run folder",
        _MAIN,
        "for find_folder in (lambda: _folder_of(argv), lambda",
        "for find_folder in (lambda",
        (_START,),
        "traceback",
    ),
)
