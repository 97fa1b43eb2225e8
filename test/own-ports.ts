/**
 * Ports for a server that must know its port before it listens, or that must listen on the same port again. They are
 * below the range that Linux assigns for port 0 (from 32,768 on). A block belongs to the process that listens on its
 * first port, so test runs do not collide.
 */
import { once } from 'node:events'
import { createServer } from 'node:net'

const FIRST_PORT = 12_000
const BLOCK_PORTS = 500
const BLOCKS = 40

const block = await freeBlock()
let used = 1

/** Returns the first of `count` consecutive ports. Ports repeat after a few hundred calls. */
export function ownPorts(count: number): number {
  if (used + count > BLOCK_PORTS) used = 1
  used += count
  return block + used - count
}

async function freeBlock(): Promise<number> {
  for (let tries = 0; tries < BLOCKS; tries++) {
    const first = FIRST_PORT + ((process.pid + tries) % BLOCKS) * BLOCK_PORTS
    if (await lock(first)) return first
  }
  throw new Error(
    `No block of ports is free between ${FIRST_PORT} and ${FIRST_PORT + BLOCKS * BLOCK_PORTS}. End test runs that hang.`,
  )
}

async function lock(port: number): Promise<boolean> {
  const server = createServer().listen({ port, host: '127.0.0.1', exclusive: true }).unref()
  return once(server, 'listening').then(
    () => true,
    () => false,
  )
}
