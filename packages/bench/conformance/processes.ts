/** Child processes that never outlive the run: each in its own process group, with a log file, stopped by id. */
import { execFileSync, spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { closeSync, mkdirSync, openSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

export interface Command {
  /** Description for people. */
  readonly what: string
  readonly command: readonly string[]
  readonly folder: string
  readonly env?: Readonly<Record<string, string>>
}

export interface RunningProcess {
  readonly what: string
  /** Also the id of its process group. undefined: it did not start. */
  readonly pid: number | undefined
  readonly logFile: string
  /** null while it runs. */
  exitCode(): number | null
  /** The end of its log. */
  tail(lines?: number): string
  /** Sends a signal to all its processes, or to the first whose title contains `title`. Throws if there is none. */
  kill(signal: NodeJS.Signals, title?: string): void
  stop(): Promise<void>
}

export class Processes {
  readonly #logFolder: string
  readonly #note: (line: string) => void
  readonly #running = new Set<RunningProcess>()
  #count = 0

  constructor(logFolder: string, note: (line: string) => void) {
    this.#logFolder = logFolder
    this.#note = note
    mkdirSync(logFolder, { recursive: true })
  }

  /** Starts a long-running process. */
  start({ what, command, folder, env }: Command): RunningProcess {
    const logFile = join(
      this.#logFolder,
      `${String(++this.#count).padStart(2, '0')}-${what.replace(/[^a-z0-9]+/gi, '-').toLowerCase()}.log`,
    )
    const log = openSync(logFile, 'w')
    const child = spawn(command[0]!, command.slice(1), {
      cwd: folder,
      env: { ...process.env, ...env },
      stdio: ['ignore', log, log],
      detached: true,
    })
    closeSync(log)
    const ended = new Promise<void>((resolve) => {
      child.once('exit', () => resolve())
      child.once('error', () => resolve())
    })
    const running: RunningProcess = {
      what,
      pid: child.pid,
      logFile,
      exitCode: () => (child.pid === undefined ? -1 : (child.exitCode ?? (child.signalCode === null ? null : -1))),
      tail: (lines = 15) => readFileSync(logFile, 'utf8').trimEnd().split('\n').slice(-lines).join('\n'),
      kill: (signal, title) => (title === undefined ? signalGroup(child, signal) : signalMember(child, signal, title)),
      stop: async () => {
        await stopGroup(child, ended)
        this.#running.delete(running)
      },
    }
    this.#running.add(running)
    return running
  }

  /** Runs a command to its end and reports every 15 s that it still runs. Rejects with the end of its log. */
  async finish(step: Command & { readonly limitS: number }): Promise<void> {
    const began = performance.now()
    const running = this.start(step)
    this.#note(`${step.what} …`)
    for (let ticks = 1; running.exitCode() === null; ticks++) {
      await sleep(250)
      const seconds = (performance.now() - began) / 1000
      if (ticks % 60 === 0) this.#note(`  … ${Math.round(seconds)} s`)
      if (seconds > step.limitS) {
        await running.stop()
        throw new Error(`'${step.what}' took more than ${step.limitS} s. Its log: ${running.logFile}`)
      }
    }
    await running.stop()
    if (running.exitCode() !== 0) throw new Error(`'${step.what}' failed (${running.exitCode()}):\n${running.tail()}`)
  }

  /** Output of a short command. */
  output(command: readonly string[]): Promise<string> {
    return new Promise((resolve, reject) => {
      const child = spawn(command[0]!, command.slice(1), { stdio: ['ignore', 'pipe', 'pipe'], timeout: 240_000 })
      let out = ''
      let err = ''
      child.stdout.setEncoding('utf8').on('data', (text: string) => (out += text))
      child.stderr.setEncoding('utf8').on('data', (text: string) => (err += text))
      child.once('error', reject)
      child.once('close', (code) =>
        code === 0 ? resolve(out.trim()) : reject(new Error(`${command[0]} failed (${code}): ${err.slice(-2000)}`)),
      )
    })
  }

  async stopAll(): Promise<void> {
    await Promise.all([...this.#running].map((running) => running.stop()))
  }

  /** Stops everything at exit, when nothing can be awaited. */
  killAll(): void {
    for (const running of this.#running) running.kill('SIGKILL')
  }
}

/** Stops the whole group, first with SIGTERM, then with SIGKILL: a vLLM server has three processes. */
async function stopGroup(child: ChildProcess, ended: Promise<void>): Promise<void> {
  for (const [signal, waitMs] of [
    ['SIGTERM', 15_000],
    ['SIGKILL', 5_000],
  ] as const) {
    if (!groupAlive(child)) return
    signalGroup(child, signal)
    for (let waited = 0; waited < waitMs && groupAlive(child); waited += 100)
      await Promise.race([sleep(100), ended.then(() => sleep(100))])
  }
}

function signalGroup(child: ChildProcess, signal: NodeJS.Signals): void {
  if (child.pid === undefined) return
  try {
    process.kill(-child.pid, signal)
  } catch {
    // The group has ended.
  }
}

function signalMember(child: ChildProcess, signal: NodeJS.Signals, title: string): void {
  for (const line of execFileSync('ps', ['-eo', 'pid=,pgid=,args='], { encoding: 'utf8' }).split('\n')) {
    const [, pid, group, args] = /^ *(\d+) +(\d+) (.*)/.exec(line) ?? []
    if (group === String(child.pid) && args!.includes(title)) return void process.kill(Number(pid), signal)
  }
  throw new Error(`no process of the group of ${child.pid} has the title '${title}'`)
}

function groupAlive(child: ChildProcess): boolean {
  if (child.pid === undefined) return false
  try {
    process.kill(-child.pid, 0)
    return true
  } catch {
    return false
  }
}
