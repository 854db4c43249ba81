"""What a PyFlink program imports, under PyFlink's module paths.

A program moves here by `stateshift.pyflink` in place of `pyflink` in its imports. The modules re-export what lives in
`serializers/` and `state/`, and hold what is only a word of PyFlink's. `docs/reference/pyflink.md` has every name.
"""

if __name__ == "pyflink":
    raise ImportError("this folder is stateshift.pyflink, not PyFlink: start Python in another folder")
