<?php
// Tests that print TAP, without a package for it: test(name, function), same, refused.

$count = 0;
$failed = 0;

function test(string $name, callable $body): void
{
    global $count, $failed;
    $count++;
    try {
        $body();
        echo "ok $count - $name\n";
    } catch (Throwable $error) {
        $failed++;
        echo "not ok $count - $name\n# " . get_class($error) . ': ' . $error->getMessage() . "\n";
        echo preg_replace('/^/m', '#   ', $error->getTraceAsString()) . "\n";
    }
}

function same(mixed $found, mixed $expected): void
{
    if ($found !== $expected) {
        throw new Exception('found ' . json_encode($found) . ', expected ' . json_encode($expected));
    }
}

/** The exception of this kind that something ends with. */
function refused(string $kind, callable $body): Throwable
{
    try {
        $body();
    } catch (Throwable $error) {
        if ($error instanceof $kind) {
            return $error;
        }
        throw $error;
    }
    throw new Exception("not refused with $kind");
}

/** Waits until something is true. */
function soon(string $what, callable $condition): void
{
    $end = microtime(true) + 20;
    while (!$condition()) {
        if (microtime(true) > $end) {
            throw new Exception("not within 20 s: $what");
        }
        usleep(50000);
    }
}

function finish(): never
{
    global $count, $failed;
    echo "1..$count\n";
    exit($failed > 0 ? 1 : 0);
}
