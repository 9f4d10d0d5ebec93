# Tests that print TAP, without a package for it: `test "name" { … }`, `same`, `refused`, `soon`.
require "timeout"

$count = 0
$failed = 0

def test(name, &body)
  $count += 1
  Timeout.timeout(60, &body)
  puts "ok #{$count} - #{name}"
rescue StandardError => error
  $failed += 1
  puts "not ok #{$count} - #{name}"
  puts "# #{error.class}: #{error.message}", *error.backtrace.first(6).map { |line| "#   #{line}" }
ensure
  $stdout.flush
end

def same(found, expected)
  raise "found #{found.inspect}, expected #{expected.inspect}" unless found == expected
end

# The text of the error that the broker refuses this with.
def refused(kind)
  yield
rescue kind => error
  error.message
else
  raise "not refused with #{kind}"
end

# Waits until something is true.
def soon(what, seconds: 20)
  deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + seconds
  until yield
    raise "not within #{seconds} s: #{what}" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline
    sleep 0.05
  end
end

at_exit do
  puts "1..#{$count}"
  exit!(1) if $failed > 0
end
