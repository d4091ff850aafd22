# The two commands: `make run` serves a volume from files below ./run/, `make test` runs every test.

.PHONY: help run cluster stop test lint vm blktests sim soak nemesis fuzz bench micro models fresh install uninstall deb clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile

run: ## build, serve a 10 GiB volume from files below ./run/ in the foreground (Ctrl-C stops it)
	@scripts/run

cluster: ## build, form a cluster of three nodes on 127.0.0.2 to .4 from files below ./run/cluster/ (Ctrl-C stops it)
	@scripts/cluster

stop: ## stop what `make run` or `make cluster` started
	@scripts/stop

test: ## every test: formatting, lints, house rules, unit and whole-system tests, stock kernels in VMs
	@scripts/test

lint: ## formatting, lints and house rules only
	@scripts/test lint

vm: ## the tests with stock Linux kernels only
	@scripts/test vm

blktests: ## the nvme group of blktests in a VM: make blktests TREE=a-checkout [TESTS="nvme/010"] (docs/blktests.md)
	@scripts/setup test && cargo build --quiet -p basalt
	@tests/vm/blktests $(foreach k,$(KERNELS),--kernel $(k)) "$(TREE)" $(TESTS)

sim: ## a node in virtual time: SEEDS=0..400 and old failing seeds, then is each seeded fault found?
	@scripts/sim run $(SEEDS) && scripts/sim known

soak: ## new seeds of the simulator for MINUTES=10 on all cores, figures in target/soak.json
	@scripts/sim soak $(MINUTES)

nemesis: ## real daemons die, hang, are cut off and change at random while hosts verify, for MINUTES=10; SEED=a-printed-one plays the same again, NODES=5, WITNESS=1: two nodes and a witness, HISTORY=a-printed-file judges it again
	@scripts/setup test
	@NEMESIS_MINUTES="$(or $(MINUTES),10)" NEMESIS_SEED="$(SEED)" NEMESIS_NODES="$(NODES)" NEMESIS_WITNESS="$(WITNESS)" NEMESIS_HISTORY="$(HISTORY)" cargo test --quiet -p basalt --test whole nemesis:: -- --nocapture

fuzz: ## fuzz every parser and whole connections, FUZZ_SECONDS=60 each; a table of what was found
	@scripts/fuzz run $(TARGETS)

bench: ## the table of docs/performance.md on this machine: make bench [SPDK=a-built-SPDK-tree] [ARGS="--rounds 1 --only idle"]
	@cargo build --release -p basalt -p lab && cargo build --release -p store --example buffer_growth
	@scripts/bench --spdk "$(SPDK)" $(ARGS)

micro: ## instructions of the hot pieces beside the kept baseline: what got slower (ONLY=index)
	@scripts/micro compare $(if $(ONLY),--only $(ONLY))

models: ## the replica protocol in larger bounds, STATES=5000000 of each (docs/replication.md); some need gigabytes of memory
	@cargo run --quiet -p models --example explore -- deep all $(or $(STATES),5000000)

fresh: ## both commands and the package on a bare Debian 12, made for it and removed again; root only (ONLY=run, lint, test or deb: one of them)
	@scripts/fresh $(ONLY)

install: ## build the release and install it: make install [PREFIX=/usr/local] [DESTDIR=a-root] (scripts/install)
	@PREFIX="$(PREFIX)" DESTDIR="$(DESTDIR)" scripts/install

uninstall: ## remove what `make install` installed below PREFIX; configuration and data stay
	@PREFIX="$(PREFIX)" DESTDIR="$(DESTDIR)" scripts/install --remove

deb: ## build the release and make Debian packages of it in target/deb (scripts/deb)
	@scripts/deb $(OUT)

clean: ## remove what was built (not ./run/, which holds data)
	cargo clean
