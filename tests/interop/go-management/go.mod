module leveret/interop/management

go 1.24.0

require github.com/michaelklishin/rabbit-hole/v3 v3.5.0
