// Package visitor serves the sample's pages for visitors: registration, sign-in,
// recovery, and an account to look after. It shows how a CMS builds pages of its
// own upon a [personal.Service]: it calls the service in process, lets the shim
// say who is signed in and what errors mean, and keeps the pair that identifies
// a session in a cookie of its own, out of reach of scripts.
package site
