"""The page's looks, light and dark, and the little that moves: the theme's button and the filter of the claims."""

LIGHT = """
--ground:#fbfbf9;--paper:#ffffff;--ink:#1c2328;--soft:#55606a;--line:#dfe2e4;--accent:#0b5cab;--code:#f0f1f2;
--held:#0a6b3d;--held-ground:#e0f2e8;--condition:#7a5200;--condition-ground:#fbf0d2;--undecided:#3f4d8a;
--undecided-ground:#e6e9f8;--not:#a1261b;--not-ground:#fbe3e0;--unknown:#4e5964;--unknown-ground:#e9ecef;
"""
DARK = """
--ground:#14181b;--paper:#1d2226;--ink:#e6e9eb;--soft:#a4adb5;--line:#343b41;--accent:#7cb8f7;--code:#2a3035;
--held:#7fdcab;--held-ground:#143726;--condition:#f2cc78;--condition-ground:#3c2f10;--undecided:#b3c0ff;
--undecided-ground:#252c4d;--not:#ff9d92;--not-ground:#45201c;--unknown:#b6c0c9;--unknown-ground:#2c343a;
"""
STYLE = (
    f"""
:root{{color-scheme:light;{LIGHT}}}
@media (prefers-color-scheme:dark){{:root:not([data-theme=light]){{color-scheme:dark;{DARK}}}}}
:root[data-theme=dark]{{color-scheme:dark;{DARK}}}
"""
    + """
*{box-sizing:border-box}
html{scroll-padding-top:3.5rem;-webkit-text-size-adjust:100%}
body{margin:0;background:var(--ground);color:var(--ink);font:16px/1.55 system-ui,-apple-system,"Segoe UI",sans-serif;
overflow-wrap:break-word}
main,.bar>div{max-width:70rem;margin:0 auto;padding:0 1rem}
.bar{position:sticky;top:0;z-index:2;background:var(--paper);border-bottom:1px solid var(--line)}
.bar>div{display:flex;gap:1rem;align-items:center}
nav{display:flex;gap:1rem;overflow-x:auto;flex:1;scrollbar-width:none;white-space:nowrap}
nav::-webkit-scrollbar{display:none}
nav a{padding:.75rem 0;font-size:.92rem;text-decoration:none}
button{font:inherit;font-size:.88rem;color:var(--ink);background:var(--paper);border:1px solid var(--line);
border-radius:1rem;padding:.2rem .8rem;cursor:pointer}
button[aria-pressed=true]{border-color:var(--accent);color:var(--accent)}
a{color:var(--accent)}
h1{font-size:1.75rem;line-height:1.2;margin:2rem 0 .5rem}
h2{font-size:1.4rem;line-height:1.25;margin:0 0 .4rem}
h3{font-size:1.1rem;margin:2rem 0 .6rem}
h4{font-size:1rem;margin:1.6rem 0 .5rem}
.question{font-size:1.05rem;color:var(--soft);margin:0 0 1rem}
.facts,.caption,figcaption,.small{font-size:.88rem;color:var(--soft)}
.caption{margin:.4rem 0 1rem}
section{border-top:1px solid var(--line);margin-top:3rem;padding-top:2rem}
.scroll{overflow-x:auto;border:1px solid var(--line);border-radius:.4rem;background:var(--paper);margin:1rem 0 0}
table{border-collapse:collapse;font-size:.88rem;font-variant-numeric:tabular-nums;min-width:100%}
th,td{padding:.3rem .7rem;text-align:right;white-space:nowrap;font-weight:400}
thead th{border-bottom:1px solid var(--line);font-weight:600;color:var(--soft)}
th:first-child,th[scope=rowgroup]{text-align:left}
tbody th{background:var(--paper);position:sticky;left:0}
th[scope=rowgroup]{font-weight:600;padding-top:.7rem}
tr.end>*{border-bottom:1px solid var(--line)}
tbody tr:last-child>*{border-bottom:0}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,26rem),1fr));gap:1.2rem;margin:1.2rem 0}
figure{margin:0;min-width:0}
figure.wide{grid-column:1/-1}
.card{overflow-x:auto;background:#fff;border:1px solid var(--line);border-radius:.4rem;padding:.5rem;text-align:center}
.card img{max-width:100%;height:auto;display:block;margin:auto}
figcaption{margin-top:.35rem}
details{border:1px solid var(--line);border-radius:.4rem;background:var(--paper);margin:.6rem 0;padding:0 .9rem}
summary{cursor:pointer;padding:.5rem 0}
details>:last-child{margin-bottom:.9rem}
dl{display:grid;grid-template-columns:minmax(6rem,max-content) minmax(0,1fr);gap:.15rem 1rem;margin:.6rem 0;
font-size:.9rem}
dt{color:var(--soft)}
dd{margin:0}
dl.settings{font-size:.82rem;grid-template-columns:repeat(auto-fill,minmax(min(100%,17rem),1fr))}
dl.settings div{display:flex;justify-content:space-between;gap:1rem;border-bottom:1px dotted var(--line)}
dl.settings dd{text-align:right}
code{background:var(--code);border-radius:.25rem;padding:.05rem .3rem;font-size:.87em}
ul{padding-left:1.2rem}
.badge{display:inline-block;border-radius:1rem;padding:.05rem .7rem;font-size:.83rem;font-weight:600;white-space:nowrap}
.held{color:var(--held);background:var(--held-ground)}
.condition{color:var(--condition);background:var(--condition-ground)}
.undecided{color:var(--undecided);background:var(--undecided-ground)}
.not{color:var(--not);background:var(--not-ground)}
.unknown{color:var(--unknown);background:var(--unknown-ground)}
.filter{display:flex;flex-wrap:wrap;gap:.5rem;margin:1rem 0}
.claim{border:1px solid var(--line);border-radius:.5rem;background:var(--paper);padding:.8rem 1rem;margin:.7rem 0}
.claim blockquote{margin:.35rem 0 0;font-size:1.02rem}
.claim .top{display:flex;flex-wrap:wrap;gap:.3rem .8rem;align-items:baseline}
.claim[hidden]{display:none}
.claim dl{margin:.4rem 0 0}
.claim details{border:0;padding:0;margin:.2rem 0 0;font-size:.88rem;color:var(--soft)}
.claim summary{padding:.1rem 0}
.claim details>:last-child{margin-bottom:0}
@media (max-width:44rem){.wide .card img{max-width:none;width:44rem}
th:first-child{min-width:9rem;max-width:46vw;white-space:normal}
th[scope=rowgroup]{max-width:none}}
@media (max-width:34rem){dl{grid-template-columns:minmax(0,1fr);gap:0}dd{margin-bottom:.5rem}h1{font-size:1.45rem}}
@media print{.bar,.filter{display:none}}
"""
)
SCRIPT = """
(function(){
var root=document.documentElement,button=document.getElementById('theme');
function dark(){var t=root.getAttribute('data-theme');
return t?t==='dark':!!(window.matchMedia&&matchMedia('(prefers-color-scheme:dark)').matches);}
function name(){button.textContent=dark()?'Light':'Dark';}
try{var kept=localStorage.getItem('gems-theme');if(kept)root.setAttribute('data-theme',kept);}catch(e){}
button.hidden=false;name();
button.addEventListener('click',function(){var next=dark()?'light':'dark';root.setAttribute('data-theme',next);
try{localStorage.setItem('gems-theme',next);}catch(e){}name();});
var filters=document.querySelectorAll('.filter button');
filters.forEach(function(one){one.addEventListener('click',function(){
filters.forEach(function(other){other.setAttribute('aria-pressed',String(other===one));});
var kind=one.getAttribute('data-kind');
document.querySelectorAll('.claim').forEach(function(claim){
claim.hidden=kind!=='all'&&claim.getAttribute('data-kind')!==kind;});
document.querySelectorAll('#claims h3').forEach(function(head){
var next=head.nextElementSibling,any=false;
while(next&&next.tagName!=='H3'){if(next.classList.contains('claim')&&!next.hidden)any=true;next=next.nextElementSibling;}
head.hidden=!any;});});});
})();
"""
