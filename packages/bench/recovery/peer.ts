/** Another gateway in front of the same engines, started by a script of `peer-bench/peers`. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { guard } from '../proxy/processes.ts'
import { ask } from './client.ts'
import { chatBody } from './load.ts'

/** Peers that are run with `--peers`. */
export const PEERS = ['vllm-router', 'smg', 'nginx', 'sglang-router'] as const

const SCRIPTS = fileURLToPath(new URL('../../../../shared/peer-bench/peers/', import.meta.url))
const READY_MS = 30_000
const END_MS = 3_000

/** What stands in front of the engines. */
export interface Front {
  readonly url: string
  end(): Promise<void>
}

export interface PeerOptions {
  readonly name: string
  /** Where the peers are installed. */
  readonly folder: string
  /** URLs of the engines. */
  readonly engines: readonly string[]
  /** Folder for its files. */
  readonly work: string
}

/** Rejects if it does not answer a chat. */
export async function startPeer({ name, folder, engines, work }: PeerOptions): Promise<Front> {
  const port = await freePort()
  const child = spawn('bash', ['-c', '. "$0"; exec $CMD', `${SCRIPTS}${name}.sh`], {
    stdio: 'ignore',
    env: { ...process.env, PEERS: folder, ENGINES: engines.join(' '), PORT: String(port), WORK: work, EXTRA: '' },
  })
  guard(child)
  const url = `http://127.0.0.1:${port}`
  const front: Front = { url, end: () => ended(child) }
  for (const until = performance.now() + READY_MS; performance.now() < until;) {
    if (child.exitCode !== null) break
    const { isComplete } = await ask({ url, id: 'ready', body: chatBody(10, 1), patienceMs: 2_000 })
    if (isComplete) return front
    await sleep(200)
  }
  await front.end()
  throw new Error(`${name} does not start`)
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const gone = once(child, 'exit')
  child.kill('SIGTERM')
  await Promise.race([gone, sleep(END_MS)])
  if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL')
  await gone
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}
