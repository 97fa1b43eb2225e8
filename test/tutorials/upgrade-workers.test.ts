/** The commands run as typed, in a copy of this checkout. They need no account: the Worker is built, not uploaded. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { prepareCheckout } from './checkout.ts'
import { bash, missingFrom, stepsOf } from './run-page.ts'

const folder = mkdtempSync(join(tmpdir(), 'tutorial-'))
const { checkout, path } = prepareCheckout(folder)

beforeAll(async () => {
  const { code, output } = await bash('git clone URL firstlight && cd firstlight && npm ci', folder, path)
  expect(code, output).toBe(0)
}, 60_000)

afterAll(() => rmSync(folder, { recursive: true, force: true }))

it.each(stepsOf('upgrade-workers.md').map((step, at) => ({ ...step, at, first: step.commands.split('\n')[0]! })))(
  'step $at works as typed: $first',
  async ({ commands, expected }) => {
    const { code, output } = await bash(commands, checkout, path)
    expect(code, output).toBe(0)
    expect(missingFrom(output, expected), output).toEqual([])
  },
  120_000,
)
