//! Lean loads over AMQP for the storage figures: what they cost the client is little, so that two
//! cores show the broker.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::client::{Client, Event};

/// Unconfirmed messages at most.
const WINDOW: u64 = 2_000;
/// Unsettled deliveries at most.
const PREFETCH: u16 = 1_000;
/// A broker that confirms or delivers nothing for this long is stuck.
const STUCK: Duration = Duration::from_secs(60);

/// Publishes so many persistent messages and waits for all confirms.
pub fn fill(address: SocketAddr, exchange: &str, key: &str, size: usize, count: u64) -> Result<()> {
    let mut client = Client::connect(address)?;
    client.confirm_select()?;
    let body = vec![0x5A; size];
    let mut sent = 0;
    let mut confirmed = 0;
    while confirmed < count {
        while sent < count && sent - confirmed < WINDOW && client.buffered_bytes() < 256 * 1024 {
            client.publish(exchange, key, &body, true);
            sent += 1;
        }
        client.flush()?;
        let mut event = client.next(STUCK)?;
        if event.is_none() {
            bail!(
                "no confirm for {} s after {confirmed} of {count}",
                STUCK.as_secs()
            );
        }
        while let Some(Event::Confirm {
            number,
            multiple,
            refused,
        }) = event
        {
            if refused {
                bail!("message {number} was refused");
            }
            // Confirms of one channel to one queue come in order.
            confirmed = if multiple { number } else { confirmed + 1 };
            event = client.next_buffered()?;
        }
    }
    Ok(())
}

/// Consumes and settles so many messages.
pub fn drain(address: SocketAddr, queue: &str, count: u64) -> Result<()> {
    let mut client = Client::connect(address)?;
    client.qos(PREFETCH)?;
    client.consume(queue, false)?;
    let mut got = 0;
    let mut unsettled = 0;
    while got < count {
        let mut event = client.next(STUCK)?;
        if event.is_none() {
            bail!(
                "no delivery for {} s after {got} of {count}",
                STUCK.as_secs()
            );
        }
        while let Some(current) = event {
            if let Event::Deliver { tag, .. } = current {
                got += 1;
                unsettled += 1;
                if unsettled == 100 || got == count {
                    client.ack(tag, true);
                    unsettled = 0;
                }
            }
            event = client.next_buffered()?;
        }
        client.flush()?;
    }
    // A call that is answered shows that the settlements before it were read.
    client.qos_answered(PREFETCH)
}

/// Publishes at a steady rate for some time, with confirms. Gives how many.
pub fn steady(
    address: SocketAddr,
    exchange: &str,
    size: usize,
    rate: f64,
    mut on: impl FnMut(u64) -> bool,
) -> Result<u64> {
    let mut client = Client::connect(address)?;
    client.confirm_select()?;
    let body = vec![0xA5; size];
    let started = Instant::now();
    let mut sent = 0;
    while on(sent) {
        let due = (started.elapsed().as_secs_f64() * rate) as u64;
        while sent < due {
            client.publish(exchange, "", &body, true);
            sent += 1;
        }
        client.flush()?;
        // Confirms are read as they come; the wait keeps the pace.
        let mut event = client.next(Duration::from_millis(5))?;
        while event.is_some() {
            event = client.next_buffered()?;
        }
    }
    Ok(sent)
}

/// A consumer with prefetch 1 that settles each message on its own after a delay. Gives how many.
pub fn slow_consumer(
    address: SocketAddr,
    queue: &str,
    delay: Duration,
    on: impl Fn() -> bool,
) -> Result<u64> {
    let mut client = Client::connect(address)?;
    client.qos(1)?;
    client.consume(queue, false)?;
    let mut got = 0;
    while on() {
        if let Some(Event::Deliver { tag, .. }) = client.next(Duration::from_millis(200))? {
            std::thread::sleep(delay);
            client.ack(tag, false);
            client.flush()?;
            got += 1;
        }
    }
    Ok(got)
}
