# To try it out: make run, make test. The other targets are for development.
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOVERTER    := github.com/jmattheis/goverter/cmd/goverter@v1.11.1
POSTGRES    := go run ./internal/testkit/postgrestest --
FUZZTIME    ?= 10s
GOTESTFLAGS ?=
MODULES     := shared/personaloidc host-sample # nested ones, built and tested with the main one
TESTS       ?= ./internal/system ./internal/accounts ./internal/store ./plugin ./shared/plugins/manager ./... # the longest first
TESTED      ?= $(if $(filter ./...,$(TESTS)),$(MODULES)) # modules that are tested, too
# Packages at a time: tests wait, too, so two more than processors.
PACKAGES    ?= $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) + 2)))
# With the race detector every program would wait a second at its end.
export GORACE ?= atexit_sleep_ms=0
# What is compiled holds no path of the source, so programs, tests, tools and all clones share it.
GOFLAGS_HERE := $(shell env -u MINISIGN_PASSWORD go env GOFLAGS)
export GOFLAGS = $(GOFLAGS_HERE) $(if $(STRIP),-trimpath)
# Only the race detector needs a C library.
export CGO_ENABLED ?= $(if $(filter -race,$(GOFLAGS_HERE)),1,0)
WITH_CGO     = $(if $(filter -race,$(GOTESTFLAGS)),env CGO_ENABLED=1)
# The race detector watches all but what it slows down most and has no state to race for: SQLite's own
# code, translated from C, cryptography, texts, and the checks of the API document.
UNWATCHED    = modernc.org/sqlite/lib modernc.org/libc/... golang.org/x/crypto/... golang.org/x/text/... crypto/internal/fips140/... github.com/getkin/kin-openapi/...
export PERSONAL_TEST_GCFLAGS := $(UNWATCHED:%=-gcflags=%=-race=false)
RACE         = -race -timeout=20m $(PERSONAL_TEST_GCFLAGS)
LINTED      ?= $(MODULES) host-sample/e2e bench bench/pocketbase internal/tools/sbom # modules besides the main one
SOAK_TESTS   = $(shell grep -oh '^func Test[A-Za-z0-9_]*' $$(grep -l '^//go:build soak' internal/system/*_test.go) /dev/null | cut -d' ' -f2 | paste -sd '|')

.PHONY: build plugin run dev test e2e lint generate fuzz soak coverage sbom npm deb release bench compare clean

# Programs without symbols, as they are released; panics still show functions and
# lines. For a debugger, with symbols and the paths of the source: make build STRIP=
STRIP := -s -w
build:
	go build -ldflags "$(STRIP)" -o bin/personal ./plugin
	go build -C host-sample -ldflags "$(STRIP)" -o ../bin/host-sample .

# The sample host, which gets every change of the source: docs/developing.md, section
# "Developing the plugin". Environment variables are the flags of serve.
dev: STRIP =
dev:
	go build -o bin/dev ./internal/tools/dev
	exec bin/dev

# A bundle of a version that hosts can install: make plugin VERSION=1.2.3
# signed with KEY=FILE, a minisign secret key (its password in MINISIGN_PASSWORD).
plugin:
	@env -u MINISIGN_PASSWORD go build -o bin/bundle ./internal/tools/bundle
	@bin/bundle build --version="$$VERSION" --key="$$KEY" --notes="$$NOTES" ./plugin

# The plugin's settings are in data/settings.toml, unless PERSONAL_SETTINGS names others.
run: build
	bin/host-sample plugin install --activate --data data bin/personal
	@test -e data/settings.toml || (umask 077; port=$${PERSONAL_ADDR##*:}; sed "s/localhost:8080/localhost:$${port:-8080}/" host-sample/settings.toml >data/settings.toml)
	PERSONAL_SETTINGS=$${PERSONAL_SETTINGS:-data/settings.toml} bin/host-sample serve --data data

# All tests but the browser's, on SQLite and on a PostgreSQL server started for them. With
# the race detector: make test GOTESTFLAGS='$(RACE)', also in the programs that tests start with
# PERSONAL_TEST_BINARIES= (which is empty).
test: export PERSONAL_TEST_BINARIES ?= $(CURDIR)/bin
# Go's linker and the tests collect garbage less often and use more memory. Programs to which a test
# gives an environment of their own do not.
test: export GOGC ?= 300
# The limit of a package only ends a hang: on a cold and busy machine the longest takes more than Go's 10 minutes.
# The modules in TESTED are tested beside the longest package, which keeps one processor busy.
test: build
	@(for module in $(TESTED); do $(WITH_CGO) go test -C $$module -timeout 40m $(GOTESTFLAGS) ./... || exit 1; done) & nested=$$!; \
	$(POSTGRES) $(WITH_CGO) go test -timeout 40m -p $(PACKAGES) $(GOTESTFLAGS) $(TESTS); main=$$?; \
	wait $$nested && exit $$main

# The sample host's pages in a real browser, which is installed if none is found.
e2e: build
	$(WITH_CGO) host-sample/e2e/run $(GOTESTFLAGS)

# Words that no text has (in brackets: what it says): meanwhile (in the meantime), lately (recently), begun (started),
# is no error (is not an error), is no theft (is not a theft).
REFUSED := meanwhile|lately|begun|is no (error|theft)
lint:
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo "run gofmt -w on these"; exit 1; }
	go vet -tags 'extended soak' ./...
	go run $(STATICCHECK) -checks all ./...
	for module in $(LINTED); do (cd $$module && go vet -tags 'extended soak' ./... && go run $(STATICCHECK) -checks all ./... && go mod tidy -diff) || exit 1; done
	for file in go.mod docs/examples/*/go.mod; do (cd $$(dirname $$file) && go mod tidy -diff) || exit 1; done
	.ci/imports
	go run ./internal/tools/prose
	go run ./internal/tools/realtime
	! git grep -nwiE '$(REFUSED)' -- '*.go' '*.js' '*.html' '*.md' '*.proto' '*.sql' '*.yaml' | grep -v '"begun"'
	proto/generate.sh lint
	shared/personalclient/typescript/check
	.ci/skew migrations

generate:
	proto/generate.sh
	go run ./internal/tools/rpcmethods shared/plugins/rpc
	go run $(GOVERTER) gen ./shared/plugins/rpc
	go run ./internal/tools/fakes shared/personal/personaltest/fake_generated.go
	go run ./internal/tools/openapi shared/personalhttp/openapi.yaml shared/personalhttp/openapi.json docs/api.md
	go run ./internal/tools/opmap docs/map.md
	go run ./internal/tools/asvs docs/security-asvs.yaml docs/security-asvs.md
	shared/personalclient/typescript/check generate
	go run -C host-sample . serve --help | go run ./internal/tools/configdoc plugin/settings.toml docs/configuration.md docs/api.md

# Every fuzz target for FUZZTIME each.
fuzz:
	.ci/fuzz $(FUZZTIME)

# The long tests: 1,000 swaps and 50 kills under load, floods of sign-ins, response
# times that must not reveal accounts, 1,000,000 rows imported, also of a dump, and a minute for every
# fuzz target. A soak test is a test in a file with the build tag soak.
soak:
	.ci/go-test-run '^($(SOAK_TESTS))$$' ./internal/system -tags soak -v -timeout 60m
	.ci/fuzz 60s

# Statement coverage per package by all tests together; by block in bin/coverage.out.
# Host and plugin processes that tests start are not measured. A module's tests measure the main one, too.
coverage:
	mkdir -p bin
	$(POSTGRES) go test -coverpkg=./... -coverprofile=bin/coverage.out ./... >bin/coverage.log || { cat bin/coverage.log; exit 1; }
	for module in $(MODULES); do \
		go test -C $$module -coverpkg=github.com/cms-personal/personal/... -coverprofile=$(CURDIR)/bin/coverage.module ./... >bin/coverage.log || \
			{ cat bin/coverage.log; exit 1; }; \
		grep -v '^mode' bin/coverage.module >>bin/coverage.out; \
	done
	@awk -F '[: ]' '/^mode/ { next } { n[$$1 " " $$2] = $$3; if ($$4) hit[$$1 " " $$2] = 1 } \
		END { for (b in n) { p = b; sub(/\/[^\/]*$$/, "", p); all[p] += n[b]; if (b in hit) covered[p] += n[b] } \
		for (p in all) printf "%5.1f%% of %5d %s\n", 100 * covered[p] / all[p], all[p], p | "sort -k4" }' bin/coverage.out

# The version that the plugin names, in a command.
PLUGIN_VERSION = version=$$(bin/personal manifest | sed -n 's/.*"version": *"\([^"]*\)".*/\1/p') && test -n "$$version"
# The bill of materials of each program, in dist/.
sbom: build
	mkdir -p dist
	$(PLUGIN_VERSION) && \
	for program in host-sample personal; do \
		go tool -C internal/tools/sbom cyclonedx-gomod bin -json -noserial -std -version "v$$version" \
			-output "$(CURDIR)/bin/sbom-$$program.json" "$(CURDIR)/bin/$$program" && \
		go run -C internal/tools/sbom . $$program "$(CURDIR)/bin/sbom-$$program.json" "$(CURDIR)/dist/sbom-$$program.json" || exit 1; \
	done

# The TypeScript client as npm publishes it, in dist/.
npm: build
	mkdir -p dist
	$(PLUGIN_VERSION) && shared/personalclient/typescript/check pack "$(CURDIR)/dist" "$$version"

# Debian packages of the sample host with the plugin, in dist/.
deb: build
	mkdir -p dist
	$(PLUGIN_VERSION) && deploy/deb/build "$$version" dist "$(STRIP)"

# The files of a release, in dist/: make release VERSION=1.2.3 KEY=FILE. docs/developing.md, section "Releasing".
# Only the program that signs inherits MINISIGN_PASSWORD.
# The protocol is stored first: if it has changed, the work tree has changes.
release:
	env -u MINISIGN_PASSWORD proto/generate.sh release
	@env -u MINISIGN_PASSWORD go build -o bin/bundle ./internal/tools/bundle
	@bin/bundle release --version="$$VERSION" --key="$$KEY" --notes="$$NOTES" ./plugin

bench:
	$(POSTGRES) go test -run '^$$' -bench . -benchmem ./...

# Speed compared with PocketBase, or with a commit: BASE=COMMIT. bench/README.md
# explains the output. COMPAREFLAGS are its flags; -h shows them.
compare:
	go build -C bench -o ../bin/compare ./compare
	go build -o bin/postgrestest ./internal/testkit/postgrestest
	exec bin/postgrestest -durable -- bin/compare -base "$(BASE)" $(COMPAREFLAGS)

clean:
	rm -rf bin dist
