# Nothing is needed but make and a Python 3.11+: each target makes what it needs. `make` alone prints help.
# PYTHON=… picks the interpreter that .venv is made from.

.DEFAULT_GOAL := help
.PHONY: help demo demo-spark demo-stream test slow warm lint types interop interop-native follow interop-pyflink interop-sql prove oldest releases fuzz evolution faults bench changelog clean

PY := .venv/bin/python
INSTALLED := .venv/.stateshift-installed
PYRIGHT := .venv/.stateshift-pyright-installed
OLDEST := .venv-oldest/.stateshift-installed
# The packages of PyFlink: those that are named, or an environment that is made.
PYFLINK = $(or $(STATESHIFT_PYFLINK),$(wildcard $(CURDIR)/.venv-pyflink/lib/python3.*/site-packages))
PYFLINK_MADE := $(if $(STATESHIFT_PYFLINK),,.venv-pyflink/.stateshift-installed)
# Two more than two cores have work for: while tests wait for Spark, other processes compute.
PROCESSES := 4
OLDEST_TESTS := tests/spark/source tests/spark/test_migrate.py tests/spark/test_repartition.py tests/spark/test_bootstrap.py
# Releases of Spark between the oldest and the newest, and what is judged with each release.
RELEASES := 4.1.4 4.2.1
JUDGED := -m slow tests/spark/queries/test_silent_changes.py -k "each_release or spark_4_0"
# PySpark 4.0 leaves sockets open.
OF_OLD_SPARK := ignore::pytest.PytestUnraisableExceptionWarning

##@ See it

demo: $(INSTALLED) ## a savepoint of real Flink migrated; then, on Spark, 336,776 flights from history to a new job
	@$(PY) examples/demo.py
	@$(PY) examples/flights_demo.py

demo-spark: $(INSTALLED) ## a plain PySpark query that changes: what Spark gets wrong in silence, and what it refuses, migrated
	@$(PY) examples/spark_demo.py

demo-stream: $(INSTALLED) ## the same flights as a stream on Spark, whose class changes in the middle; then in Flink, if it is at hand
	@$(PY) examples/stream_demo.py

##@ Check it

test: $(INSTALLED) ## every test but the slow ones, one in fourteen, which take longer than all others; ARGS="-k name" picks some
	@$(MAKE) -s -j 2 .cache/spark.jsa warm
	@$(PY) -m pytest -n $(PROCESSES) --dist loadgroup $(ARGS)

slow: $(INSTALLED) ## the slow ones: queries on both carriers, drivers that die, Spark processes of their own, more of the same kind
	@$(MAKE) -s -j 2 .cache/spark.jsa warm
	@$(PY) -m pytest -m "slow and not faults and not interop" -n $(PROCESSES) --dist loadgroup $(ARGS)

lint: $(INSTALLED) ## ruff (rules and format), the import contract, and that families stay by themselves
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@.venv/bin/lint-imports --no-cache
	@.venv/bin/lint-imports .ci/rings.toml --no-cache
	@$(PY) .ci/families.py

types: $(PYRIGHT) .cache/stateshift ## mypy, strict, on the source; mypy and pyright on code of users
	@MYPYPATH=.cache $(PY) -m mypy -p stateshift
	@MYPYPATH=.cache $(PY) -m mypy --explicit-package-bases tests/typing
	@.venv/bin/basedpyright --pythonpath $(PY)

interop: $(INSTALLED) ## real Flink, 2.3 and 1.20, restores what we wrote (561 MB once); STATESHIFT_INTEROP=required forbids skipping
	@STATESHIFT_INTEROP="$(STATESHIFT_INTEROP)" $(PY) -m pytest -m "interop and not slow" --ignore tests/interop/pyflink tests/interop \
	  -n 3 --dist loadfile --no-loadscope-reorder $(ARGS)

interop-pyflink: $(INSTALLED) $(PYFLINK_MADE) ## real PyFlink 2.3 beside ours (1 GB once); STATESHIFT_PYFLINK=FOLDER names its packages where they are
	@STATESHIFT_INTEROP=required STATESHIFT_PYFLINK="$(PYFLINK)" $(PY) -m pytest -m interop tests/interop/pyflink $(ARGS)

interop-native: $(INSTALLED) ## the same of native savepoints that we write, whole: from each snapshot of RocksDB and ForSt, by 2.3 and 1.20; blue and green
	@STATESHIFT_INTEROP="$(STATESHIFT_INTEROP)" $(PY) -m pytest -m interop tests/interop/test_written_native.py tests/interop/test_heap_timers.py tests/docs/test_snippets.py $(ARGS)

follow: $(INSTALLED) ## a job of real Flink followed while its state changes: killed, restarted, rescaled (three minutes each); SEEDS=1,2,3
	@STATESHIFT_INTEROP="$(STATESHIFT_INTEROP)" STATESHIFT_FOLLOW_SEEDS="$(or $(SEEDS),1)" $(PY) -m pytest -m interop tests/interop/test_following.py $(ARGS)

prove: $(INSTALLED) ## `--prove flink` on every savepoint and snapshot that Flink wrote, and on planted faults (ten minutes)
	@STATESHIFT_INTEROP="$(STATESHIFT_INTEROP)" $(PY) -m pytest -m interop tests/interop/test_proven.py $(ARGS)

interop-sql: $(INSTALLED) ## the same of Flink SQL, whole: each operator's state, the tables of accumulators and of Java classes
	@STATESHIFT_INTEROP="$(STATESHIFT_INTEROP)" $(PY) -m pytest -m interop tests/interop/test_sql*.py $(ARGS)

oldest: $(OLDEST) ## migration and the data source on the oldest Spark and libraries that pyproject.toml allows
	@.venv-oldest/bin/python -m pytest -m "not interop and not faults" -W $(OF_OLD_SPARK) $(OLDEST_TESTS) $(ARGS)
	@.venv-oldest/bin/python -m pytest -W $(OF_OLD_SPARK) $(JUDGED)

releases: $(RELEASES:%=.cache/spark-%) ## queries judged with each release of Spark between those (1 GB once, three minutes)
	@set -e; for release in $(RELEASES); do echo "Spark $$release"; \
	  PYTHONPATH=.cache/spark-$$release $(PY) -m pytest -W $(OF_OLD_SPARK) $(JUDGED) $(ARGS); done

faults: $(INSTALLED) ## processes killed at seeded moments of runs, an S3 server that goes away, more of what slow ones draw (an hour); SEEDS=3,7 or 20-39
	@STATESHIFT_FAULT_SEEDS="$(SEEDS)" $(PY) -m pytest -m faults tests/cli tests/serializers tests/spark tests/state $(ARGS)

fuzz: $(INSTALLED) ## damaged savepoints, ten minutes, guided by coverage where atheris has a wheel; SECONDS=3600 for longer
	@$(PY) tests/fuzz/run_fuzz.py --seconds "$(or $(SECONDS),600)" $(ARGS)

evolution: $(INSTALLED) ## 5,000 random types, values and changes against a model of the rule book (20 minutes); EXAMPLES=20000
	@STATESHIFT_EVOLUTION="$(or $(EXAMPLES),5000)" $(PY) -m pytest tests/evolution --hypothesis-show-statistics $(ARGS)

bench: $(INSTALLED) ## state rewritten beside Flink's own serializers, end to end, and downtime; ARGS="--scale 0.01"
	@$(PY) -m benchmarks $(ARGS)

##@ Keep house

changelog: $(INSTALLED) ## CHANGELOG.md, made of the fragments in changelog.d; at a release VERSION=0.2.0
	@$(PY) changelog.d/changelog.py $(VERSION)

clean: ## remove what was made here: the environments, .cache, build, caches of tools
	rm -rf .venv .venv-oldest .venv-pyflink .cache build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

help: ## this list
	@awk 'BEGIN { FS = ":.*## " } \
	  /^##@ / { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' Makefile

# Machine code and the classes of Spark are made ready once, and not by each process of the tests.
warm: $(INSTALLED)
	@$(PY) -m stateshift warm-up > /dev/null

.cache/spark.jsa: $(INSTALLED) tests/spark_classes.py
	@$(PY) tests/spark_classes.py

# Once, and again when the dependencies change.
$(INSTALLED): pyproject.toml .ci/install
	@PYTHON="$(PYTHON)" sh .ci/install
	@touch $@

# A second environment: what users install, in the oldest versions that are allowed.
$(OLDEST): $(INSTALLED) .ci/oldest.py
	@$(PY) -m venv --clear .venv-oldest
	@$(PY) .ci/oldest.py > .venv-oldest/oldest.txt
	@PYTHONWARNINGS="ignore:Editable installation" .venv-oldest/bin/python -m pip install -q --disable-pip-version-check \
	  -c .venv-oldest/oldest.txt -e '.[connect,demo,rocksdb,spark,test]'
	@touch $@

# An environment with PyFlink, which pins other versions of our libraries.
.venv-pyflink/.stateshift-installed: $(INSTALLED)
	@$(PY) -m venv --clear .venv-pyflink
	@.venv-pyflink/bin/python -m pip install -q --disable-pip-version-check apache-flink==2.3.0
	@touch $@

# A release of Spark in front of that of .venv, with all other libraries of it.
.cache/spark-%: | $(INSTALLED)
	@rm -rf $@.part
	@$(PY) -m pip install -q --disable-pip-version-check --target $@.part pyspark==$*
	@mv $@.part $@

# It brings its own Node, 0.3 GB, which nothing else needs.
$(PYRIGHT): $(INSTALLED)
	@PYTHONWARNINGS="ignore:Editable installation" $(PY) -m pip install -q --disable-pip-version-check -e '.[types]'
	@touch $@

# The root folder is the package, whatever the checkout is called; mypy finds it through this link.
.cache/stateshift:
	@mkdir -p .cache
	@ln -sfn .. $@
