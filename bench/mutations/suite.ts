/** Runs a few test files in a scratch copy and says what they noticed. */
import { spawn } from 'node:child_process'
import { existsSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Runtime } from './mutation.ts'
import type { Scratch } from './scratch.ts'

export type Verdict =
  /** Every test passed. */
  | { readonly kind: 'passed'; readonly tests: number }
  /** `by`: the first test that failed, or what else went wrong. */
  | { readonly kind: 'failed'; readonly by: string }
  /** The source does not load: the break is no test of the tests. */
  | { readonly kind: 'unloadable'; readonly by: string }
  /** The tests say nothing: they fail without the break too, or there are none. */
  | { readonly kind: 'useless'; readonly by: string }

/** Longer than any of the narrow sets takes on a busy machine: a break that makes a loop endless is noticed by this. */
const LIMIT_MS = 240_000
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

export async function runTests(scratch: Scratch, runtime: Runtime, files: readonly string[]): Promise<Verdict> {
  scratch.rebuilds(runtime === 'built')
  const output = join(scratch.folder, 'mutation-report.json')
  rmSync(output, { force: true })
  const project = runtime === 'workers' ? 'workers' : 'node'
  // A test that fails once on a busy machine has noticed nothing: a break fails again.
  const args = [
    'node_modules/vitest/vitest.mjs',
    'run',
    '--project',
    project,
    '--bail',
    '1',
    '--retry',
    '1',
    '--reporter',
    'json',
    '--outputFile',
    output,
    ...files,
  ]
  const ended = await run(args, scratch.folder)
  if (ended === 'late') return { kind: 'failed', by: `the time limit of ${LIMIT_MS / 1000} s` }
  if (!existsSync(output)) return { kind: 'failed', by: `vitest ended without a report: ${ended.slice(-300)}` }
  return verdictOf(JSON.parse(readFileSync(output, 'utf8')) as Report, ended)
}

function verdictOf(report: Report, printed: string): Verdict {
  const failed = report.testResults
    .flatMap(({ assertionResults }) => assertionResults)
    .find(({ status }) => status === 'failed')
  if (failed !== undefined) return { kind: 'failed', by: failed.fullName }
  const file = report.testResults.find(({ status }) => status === 'failed')
  if (file !== undefined)
    return {
      kind: UNLOADABLE.test(file.message) ? 'unloadable' : 'failed',
      by: `${file.name}: ${file.message.split('\n')[0]}`,
    }
  if (!report.success) return { kind: 'failed', by: `an unhandled error: ${printed.slice(-300)}` }
  return { kind: 'passed', tests: report.numPassedTests }
}

/** Resolves with what was printed. */
function run(args: readonly string[], cwd: string): Promise<string> {
  return new Promise((resolve) => {
    // A group of its own, so that workers of the test runner end with it.
    const child = spawn(process.execPath, args, {
      cwd,
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, NO_COLOR: '1', CI: '1' },
    })
    let printed = ''
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (data: Buffer) => (printed = (printed + data.toString()).slice(-4_000)))
    const kill = (): void => {
      try {
        if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL')
      } catch {
        // It has ended by itself.
      }
    }
    const timer = setTimeout(() => {
      printed = 'late'
      kill()
    }, LIMIT_MS)
    // Before the copy is removed, which they would go on writing into.
    process.prependOnceListener('exit', kill)
    child.on('close', () => {
      clearTimeout(timer)
      process.removeListener('exit', kill)
      resolve(printed)
    })
  })
}
