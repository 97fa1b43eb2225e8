/** Runs `firstlight doctor` and parses its report. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { readArgs } from '../../../src/cli/commands/args.ts'
import { doctor } from '../../../src/cli/commands/doctor.ts'
import type { Finding, Subject } from '../../../src/cli/doctor/finding.ts'

export interface Visit {
  readonly code: number
  readonly out: string
  readonly json: string
  readonly subjects: readonly Subject[]
  /** The only finding of that name in the report. */
  find(check: string): Finding
  /** `check: mark` of all findings that are not ok, in order. */
  readonly marks: readonly string[]
}

export async function visit(...argv: string[]): Promise<Visit> {
  const folder = mkdtempSync(join(tmpdir(), 'doctor-'))
  const file = join(folder, 'report.json')
  const out: string[] = []
  const never = new AbortController().signal
  try {
    const code = await doctor.run(
      readArgs(doctor, [...argv, '--json', file, ...(argv.includes('--idle-s') ? [] : ['--idle-s', '0'])]),
      { out: (line) => out.push(line), err: (line) => out.push(line), env: {}, stop: never, stopNow: never },
    )
    const json = readFileSync(file, 'utf8')
    const { subjects } = JSON.parse(json) as { subjects: Subject[] }
    const findings = subjects.flatMap((subject) => subject.findings)
    return {
      code,
      out: out.join('\n'),
      json,
      subjects,
      find(check) {
        const named = findings.filter((finding) => finding.check === check)
        if (named.length !== 1)
          throw new Error(
            `${named.length} findings are named ${check}: ${findings.map((finding) => finding.check).join()}`,
          )
        return named[0]!
      },
      marks: findings.filter(({ mark }) => mark !== 'ok').map(({ check, mark }) => `${check}: ${mark}`),
    }
  } finally {
    rmSync(folder, { recursive: true })
  }
}

/** Runs it for a configuration with one pool; the files of `beside` are written next to it. */
export async function visitPool(
  pool: object,
  beside: Readonly<Record<string, Uint8Array>> = {},
  ...argv: string[]
): Promise<Visit> {
  const folder = mkdtempSync(join(tmpdir(), 'doctor-config-'))
  const file = join(folder, 'firstlight.json')
  try {
    for (const [name, bytes] of Object.entries(beside)) writeFileSync(join(folder, name), bytes)
    writeFileSync(file, JSON.stringify({ listen: '127.0.0.1:0', clusters: [{ id: 'one', pools: [pool] }] }))
    return await visit('--config', file, ...argv)
  } finally {
    rmSync(folder, { recursive: true })
  }
}
