/** Runs test files in a scratch copy and judges the mutation that is applied to it. */
import { spawn } from 'node:child_process'
import { existsSync, readFileSync, rmSync } from 'node:fs'
import { join, relative } from 'node:path'
import type { Runtime } from './mutation.ts'
import type { Scratch } from './scratch.ts'
import type { Verdict } from './verdicts.ts'

/**
 * Longer than the tests of any mutation take on a busy machine. A mutation that makes a loop endless is caught by this
 * limit.
 */
const LIMIT_MS = 240_000
const BASELINE_LIMIT_MS = 900_000
const UNLOADABLE = /SyntaxError|Transform failed|PARSE_ERROR|Unexpected token|does not provide an export|is not defined/

interface Report {
  readonly success: boolean
  readonly numPassedTests: number
  readonly testResults: readonly {
    readonly name: string
    readonly status: string
    readonly message: string
    readonly assertionResults: readonly { readonly status: string; readonly fullName: string }[]
  }[]
}

interface Run {
  /** null: vitest ended without one. */
  readonly report: Report | null
  readonly isLate: boolean
  /** The last characters of stdout and stderr. */
  readonly printed: string
}

/** Runs the tests up to their first failure. */
export async function judge(scratch: Scratch, runtime: Runtime, files: readonly string[]): Promise<Verdict> {
  const { report, isLate, printed } = await vitest(scratch, runtime, ['--bail', '1', ...files], LIMIT_MS)
  if (isLate) return { kind: 'caught', by: `the time limit of ${LIMIT_MS / 1000} s` }
  if (report === null) return { kind: 'caught', by: `vitest ended without a report: ${printed.slice(-300)}` }
  return verdictOf(report, printed)
}

/** Runs all tests of the unchanged tree. Returns paths of the test files that fail twice. */
export async function failingFiles(scratch: Scratch, runtime: Runtime, files: readonly string[]): Promise<string[]> {
  const first = await failuresOf(scratch, runtime, files)
  return first.length === 0 ? [] : await failuresOf(scratch, runtime, first)
}

async function failuresOf(scratch: Scratch, runtime: Runtime, files: readonly string[]): Promise<string[]> {
  const { report, printed } = await vitest(scratch, runtime, files, BASELINE_LIMIT_MS)
  if (report === null) throw new Error(`vitest ended without a report on ${runtime}: ${printed}`)
  return report.testResults.flatMap(({ name, status }) => (status === 'failed' ? [relative(scratch.folder, name)] : []))
}

async function vitest(scratch: Scratch, runtime: Runtime, args: readonly string[], limitMs: number): Promise<Run> {
  scratch.setWorkerOutdated(runtime === 'built')
  const output = join(scratch.folder, 'mutation-report.json')
  rmSync(output, { force: true })
  const project = runtime === 'workers' ? 'workers' : 'node'
  // A test that fails once on a busy machine proves nothing. With a mutation it fails again.
  const options = [
    '--project',
    project,
    '--maxWorkers',
    '1',
    '--retry',
    '1',
    '--reporter',
    'json',
    '--outputFile',
    output,
  ]
  const ended = await run(['node_modules/vitest/vitest.mjs', 'run', ...options, ...args], scratch.folder, limitMs)
  const report = existsSync(output) ? (JSON.parse(readFileSync(output, 'utf8')) as Report) : null
  return { report, ...ended }
}

function verdictOf(report: Report, printed: string): Verdict {
  const failed = report.testResults
    .flatMap(({ assertionResults }) => assertionResults)
    .find(({ status }) => status === 'failed')
  if (failed !== undefined) return { kind: 'caught', by: failed.fullName }
  const file = report.testResults.find(({ status }) => status === 'failed')
  if (file !== undefined)
    return {
      kind: UNLOADABLE.test(file.message) ? 'unloadable' : 'caught',
      by: `${file.name}: ${file.message.split('\n')[0]}`,
    }
  if (!report.success) return { kind: 'caught', by: `an unhandled error: ${printed.slice(-300)}` }
  if (report.numPassedTests === 0) return { kind: 'inconclusive', by: 'no test ran' }
  return { kind: 'survived', tests: report.numPassedTests }
}

function run(args: readonly string[], cwd: string, limitMs: number): Promise<Pick<Run, 'isLate' | 'printed'>> {
  return new Promise((resolve) => {
    // A process group of its own, so that workers of the test runner end with it.
    const child = spawn(process.execPath, args, {
      cwd,
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, NO_COLOR: '1', CI: '1' },
    })
    let printed = ''
    let isLate = false
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (data: Buffer) => (printed = (printed + data.toString()).slice(-4_000)))
    const kill = (): void => {
      try {
        if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL')
      } catch {
        // The process has already ended.
      }
    }
    const timer = setTimeout(() => {
      isLate = true
      kill()
    }, limitMs)
    // At an exit the tests must end before the copy is removed, or they write into it again.
    process.prependOnceListener('exit', kill)
    child.on('close', () => {
      clearTimeout(timer)
      process.removeListener('exit', kill)
      resolve({ isLate, printed })
    })
  })
}
