/** Runs the tests of the cases, and finds out which cases fail. */
import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { CASE_FILES, CASES, type EngineCase } from './cases.ts'

const ROOT = join(import.meta.dirname, '../../..')

/** @testing */
export interface TestOutcome {
  readonly fullName: string
  readonly status: string
}

export type CaseRow = {
  readonly case: number
  readonly title: string
  readonly types: string
  readonly tests: number
  /** Names of tests that failed or do not exist; empty: the case passes. */
  readonly failed: string
}

export async function runCases(): Promise<readonly CaseRow[]> {
  const outcomes = await outcomesOf(CASE_FILES)
  return CASES.map((one) => rowOf(one, outcomes))
}

/** @testing */
export function rowOf({ number, title, types, tests }: EngineCase, outcomes: readonly TestOutcome[]): CaseRow {
  const failed: string[] = []
  let count = 0
  for (const pattern of tests) {
    const found = outcomes.filter(({ fullName }) => pattern.test(fullName))
    count += found.length
    if (found.length === 0) failed.push(`no test ${pattern.source}`)
    failed.push(...found.filter(({ status }) => status !== 'passed').map(({ fullName }) => fullName))
  }
  return { case: number, title, types: types.join(', '), tests: count, failed: failed.join('; ') }
}

async function outcomesOf(files: readonly string[]): Promise<readonly TestOutcome[]> {
  const folder = mkdtempSync(join(tmpdir(), 'firstlight-cases-'))
  try {
    const output = join(folder, 'report.json')
    const vitest = join(ROOT, 'node_modules/vitest/vitest.mjs')
    const options = ['--project', 'node', '--reporter', 'json', '--outputFile', output]
    await new Promise((resolve, reject) => {
      spawn(process.execPath, [vitest, 'run', ...options, ...files], {
        cwd: ROOT,
        stdio: 'ignore',
        env: { ...process.env, NO_COLOR: '1', CI: '1' },
      })
        .on('close', resolve)
        .on('error', reject)
    })
    const report = JSON.parse(readFileSync(output, 'utf8')) as {
      testResults: { assertionResults: TestOutcome[] }[]
    }
    return report.testResults.flatMap(({ assertionResults }) => assertionResults)
  } finally {
    rmSync(folder, { recursive: true })
  }
}
