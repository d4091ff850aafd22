# The two commands: `make run` serves a volume from files below ./run/, `make test` runs every test.

.PHONY: help run stop test lint vm fuzz bench clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile

run: ## build, serve a 10 GiB volume from files below ./run/ in the foreground (Ctrl-C stops it)
	@scripts/run

stop: ## stop what `make run` started
	@scripts/stop

test: ## every test: formatting, lints, house rules, unit and whole-system tests, stock kernels in VMs
	@scripts/test

lint: ## formatting, lints and house rules only
	@scripts/test lint

vm: ## the tests with stock Linux kernels only
	@scripts/test vm

fuzz: ## fuzz every parser and whole connections, FUZZ_SECONDS=60 each; a table of what was found
	@scripts/fuzz run $(TARGETS)

bench: ## beside SPDK on this machine: make bench SPDK=a-built-SPDK-tree
	@cargo build --release -p basalt && scripts/bench --spdk "$(SPDK)" $(ARGS)

clean: ## remove what was built (not ./run/, which holds data)
	cargo clean
