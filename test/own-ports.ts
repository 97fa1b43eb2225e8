/**
 * Ports for what has to say its port before it listens, or stops listening for a while and is to find it again. They are of
 * this test file alone, and none of those that Linux deals out to whoever asks for any (from 32,768 on): such a one can be
 * another's by then.
 */
let next = 12_000 + ((process.ppid + Number(process.env['VITEST_WORKER_ID'] ?? 0)) % 40) * 200

/** @returns the first of so many */
export function ownPorts(count: number): number {
  const first = next
  next += count
  return first
}
