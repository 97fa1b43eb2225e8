/** Starts another gateway in front of engines, and waits until it answers a chat. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, openSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { freeAddress } from '../../../src/platform/node/threads/free-address.ts'
import { guard, type StartedProcess } from '../proxy/processes.ts'
import { peers } from './known-peers.ts'

const READY_MS = 60_000
const END_MS = 3_000

export interface StartedPeer extends StartedProcess {
  /** Required lines of each request's head. */
  readonly head: string
  /** Resolves when the process has ended. */
  end(): Promise<void>
}

export interface PeerOptions {
  /** `NAME` or `NAME:POLICY`. */
  readonly name: string
  readonly engines: readonly string[]
  /** Folder for its files. */
  readonly work: string
  /** Folder of Python environments; absent: programs on the path. */
  readonly installed?: string | null
  /** Model of the engines; default `fake`. */
  readonly model?: string
  /** Further flags. */
  readonly flags?: readonly string[]
}

/** Rejects with the reason if it does not start. */
export async function startPeer(options: PeerOptions): Promise<StartedPeer> {
  const { name, engines, work, installed = null, model = 'fake', flags = [] } = options
  const [kind = '', policy = ''] = name.split(':')
  const peer = peers[kind]
  if (peer === undefined) throw new Error(`No peer is called '${kind}'. Known: ${Object.keys(peers).join(', ')}.`)
  const folder = join(work, name.replaceAll(/\W+/g, '-'))
  mkdirSync(folder, { recursive: true })
  const [port, metricsPort] = [await freePort(), await freePort()]
  const [word, ...args] = peer.command({ port, metricsPort, engines, folder, policy, model })
  const program = programOf(word, peer.environment, installed)
  const log = join(folder, 'log')
  const child = spawn(program, [...args, ...flags], {
    stdio: ['ignore', openSync(log, 'w'), openSync(log, 'a')],
    env: { ...process.env, ...peer.env },
  })
  const stop = guard(child)
  const end = (): Promise<void> => endOf(child)
  const failed = new Promise<never>((_, reject) => {
    child.once('error', () => reject(new Error(`'${program}' cannot be run. Install ${kind}: ${peer.from}`)))
    child.once('exit', (code) => reject(new Error(`${name} ended with ${code}; its log: ${log}`)))
  })
  failed.catch(() => {})
  const head = peer.head?.(engines) ?? ''
  try {
    await Promise.race([answersChat(port, head, model), failed])
  } catch (error) {
    await end()
    throw error
  }
  return { pid: child.pid!, port, head, stop, end }
}

function programOf(word: string, environment: string | undefined, installed: string | null): string {
  const file = installed === null || environment === undefined ? null : join(installed, environment, 'bin', word)
  return file !== null && existsSync(file) ? file : word
}

/** Rejects if it does not within a minute. */
export async function answersChat(port: number, head: string, model: string): Promise<void> {
  const [, key, value] = /^([^:]+): (.*)\r\n$/.exec(head) ?? []
  const headers = { 'content-type': 'application/json', ...(key === undefined ? {} : { [key]: value! }) }
  const body = JSON.stringify({ model, stream: true, max_tokens: 1, messages: [{ role: 'user', content: 'hi' }] })
  for (const until = performance.now() + READY_MS; performance.now() < until;) {
    const response = await fetch(`http://127.0.0.1:${port}/v1/chat/completions`, {
      method: 'POST',
      headers,
      body,
      signal: AbortSignal.timeout(2000),
    }).catch(() => null)
    await response?.body?.cancel()
    if (response?.status === 200) return
    await sleep(200)
  }
  throw new Error(`it did not answer a chat within ${READY_MS / 1000} s`)
}

/** Ends a process, by force after 3 s. */
export async function endOf(child: ChildProcess): Promise<void> {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return
  const gone = once(child, 'exit')
  child.kill('SIGTERM')
  await Promise.race([gone, sleep(END_MS, undefined, { ref: false })])
  if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL')
  await gone
}

export const freePort = async (): Promise<number> => (await freeAddress({ host: '127.0.0.1', port: 0 })).port
