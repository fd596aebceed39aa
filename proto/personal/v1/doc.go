// Package personalv1 is generated from the .proto files beside it: the services
// and messages that cross between a host and the plugin process. Package
// rpc alone uses it.
package personalv1
