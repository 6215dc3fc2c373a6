"""Games that run in Python: worker processes without JAX, and programs that call them between compiled stages."""
