#!/bin/sh
# Generates the Go code next to the .proto files, with pinned tools.
#
#	proto/generate.sh          write the code
#	proto/generate.sh lint     check the .proto files, also against the last release, if
#	                           there is one: an older plugin must still work
#	proto/generate.sh release  store the current .proto files as the last release
#
# The tools are kept in a cache outside the repository; a second run installs
# nothing. It needs Go and npm.
set -eu

buf_version=1.75.0
go_version=1.36.12     # that of google.golang.org/protobuf in go.mod
go_grpc_version=1.6.1

cd "$(dirname "$0")"
cache=${XDG_CACHE_HOME:-$HOME/.cache}/personal-tools
buf_home=$cache/buf-$buf_version
go_bin=$cache/protoc-gen-go-$go_version-grpc-$go_grpc_version

if [ ! -x "$buf_home/node_modules/.bin/buf" ]; then
	mkdir -p "$buf_home"
	npm install --silent --no-fund --no-audit --no-save --prefix "$buf_home" "@bufbuild/buf@$buf_version"
fi

# Outside a module, so that go.mod does not decide the versions of the tools.
install_generator() {
	[ -x "$go_bin/$1" ] || (cd "$cache" && GOFLAGS= GOWORK=off GOBIN=$go_bin go install "$2")
}

case ${1-} in
lint)
	"$buf_home/node_modules/.bin/buf" lint
	[ ! -e released.binpb ] || "$buf_home/node_modules/.bin/buf" breaking --against released.binpb
	;;
release)
	exec "$buf_home/node_modules/.bin/buf" build -o released.binpb
	;;
"")
	install_generator protoc-gen-go "google.golang.org/protobuf/cmd/protoc-gen-go@v$go_version"
	install_generator protoc-gen-go-grpc "google.golang.org/grpc/cmd/protoc-gen-go-grpc@v$go_grpc_version"
	PATH=$go_bin:$PATH exec "$buf_home/node_modules/.bin/buf" generate
	;;
*)
	echo "usage: $0 [lint | release]" >&2
	exit 2
	;;
esac
