// Package httpconn speaks as much of HTTP/1.1 (RFC 9112) as JSON over a socket needs: requests
// and answers whose bodies are short, one after the other on a connection. A request that is
// anything else is refused.
//
// net/http does all that and much more, and to link it costs every start of a job 7 to 10 in
// 100, whether that start serves or sends anything or not (docs/weight.md). Its tests hold
// this package against net/http, message by message.
package httpconn
