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

it.each(stepsOf('operate.md').map((step, at) => ({ ...step, at, first: step.commands.split('\n')[0]! })))(
  'step $at works as typed: $first',
  async ({ commands, expected }) => {
    const typed = commands.replaceAll('npx firstlight', `node ${JSON.stringify(join(root, 'bin/firstlight.mjs'))}`)
    const { code, output } = await bash(typed, folder, path)
    const log = join(folder, 'gateway.log')
    const seen = `${output}\n${existsSync(log) ? readFileSync(log, 'utf8').slice(-3000) : ''}`
    expect(code, seen).toBe(0)
    expect(missingFrom(output, expected), seen).toEqual([])
  },
  120_000,
)
