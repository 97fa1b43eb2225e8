/** Tests of a tutorial with a gateway on Node: each step as typed, one after the other, in a folder of its own. */
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { bash, missingFrom, root, stepsOf } from './run-page.ts'

const LOG_END = 3_000

/** `prepare`: what the reader has before the first step; returns `PATH`. */
export function testNodePage(page: string, prepare = (_folder: string, path: string): string => path): void {
  const folder = mkdtempSync(join(tmpdir(), 'tutorial-'))
  const path = prepare(folder, `${join(root, 'node_modules/.bin')}:${process.env['PATH']}`)
  const firstlight = `node ${JSON.stringify(join(root, 'bin/firstlight.mjs'))}`

  // A step that failed left its processes running.
  afterAll(async () => {
    await bash('kill $(cat *.pid 2>/dev/null) 2>/dev/null || true', folder, path)
    rmSync(folder, { recursive: true, force: true })
  })

  it.each(stepsOf(page).map((step, at) => ({ ...step, at, first: step.commands.split('\n')[0]! })))(
    'step $at works as typed: $first',
    async ({ commands, expected }) => {
      const { code, output } = await bash(commands.replaceAll('npx firstlight', firstlight), folder, path)
      const log = join(folder, 'gateway.log')
      const seen = `${output}\n${existsSync(log) ? readFileSync(log, 'utf8').slice(-LOG_END) : ''}`
      expect(code, seen).toBe(0)
      expect(missingFrom(output, expected), seen).toEqual([])
    },
    120_000,
  )
}
