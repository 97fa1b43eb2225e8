import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { bash, missingFrom, root, stepsOf } from './run-page.ts'

const folder = mkdtempSync(join(tmpdir(), 'tutorial-'))
const path = `${join(root, 'node_modules/.bin')}:${process.env['PATH']}`

// A step that failed left its processes running.
afterAll(async () => {
  await bash('kill $(cat *.pid 2>/dev/null) 2>/dev/null || true', folder, path)
  rmSync(folder, { recursive: true, force: true })
})

const steps = stepsOf('replay.md')

it('the tutorial has steps', () => expect(steps.length).toBe(5))

it.each(steps.map((step, at) => ({ ...step, at })))(
  'step $at works as typed',
  async ({ commands, expected }) => {
    const typed = commands.replaceAll('npx firstlight', `node ${JSON.stringify(join(root, 'bin/firstlight.mjs'))}`)
    const { code, output } = await bash(typed, folder, path)
    const log = join(folder, 'gateway.log')
    const seen = `${output}\n${existsSync(log) ? unusual(readFileSync(log, 'utf8')).slice(-4000) : ''}`
    expect(code, seen).toBe(0)
    expect(missingFrom(output, expected), seen).toEqual([])
  },
  120_000,
)

/** The lines of a gateway's log without requests that were answered. */
const unusual = (log: string): string =>
  log
    .split('\n')
    .filter((line) => !line.includes('"event":"request"') || !line.includes('"status":200'))
    .join('\n')

it('the tutorial writes a report without scripts and addresses', () => {
  const html = readFileSync(join(folder, 'report.html'), 'utf8')
  expect(html).not.toMatch(/<script|https?:\/\/(?!www\.w3\.org)/)
})
