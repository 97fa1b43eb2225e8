import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { prepareCheckout } from './checkout.ts'
import { bash, missingFrom, stepsOf } from './run-page.ts'

const folder = mkdtempSync(join(tmpdir(), 'tutorial-'))
const { checkout, path } = prepareCheckout(folder)
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const steps = stepsOf('contribute.md')

it('the tutorial has steps', () => expect(steps.length).toBeGreaterThan(4))

// Each step continues in the folder that the first one made.
it.each(steps.map((step, at) => ({ ...step, at, first: step.commands.split('\n')[0]! })))(
  'step $at works as typed: $first',
  async ({ commands, expected, at }) => {
    const { code, output } = await bash(
      commands.replaceAll('<this repository>', 'URL'),
      at === 0 ? folder : checkout,
      path,
    )
    expect(code, output).toBe(0)
    expect(missingFrom(output, expected), output).toEqual([])
  },
  330_000,
)
