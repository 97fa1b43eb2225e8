import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { bash, missingFrom, root, stepsOf } from './run-page.ts'

const folder = mkdtempSync(join(tmpdir(), 'tutorial-'))
const checkout = join(folder, 'firstlight')
const path = `${join(folder, 'bin')}:${join(checkout, 'node_modules/.bin')}:${process.env['PATH']}`

/** `git clone` copies this checkout with its uncommitted changes, and `npm ci` links its packages: tests have no network. */
const GIT = `#!/bin/bash
[ "$1" = clone ] || exec ${JSON.stringify('/usr/bin/env')} PATH="$REAL_PATH" git "$@"
export PATH="$REAL_PATH"
mkdir firstlight && cd ${JSON.stringify(root)} && git ls-files -z --cached --others --exclude-standard |
  tar --null --ignore-failed-read -T - -cf - 2>/dev/null | tar -xf - -C ${JSON.stringify(checkout)}
cd ${JSON.stringify(checkout)} && git init -q && git add -A && git -c user.name=t -c user.email=t@example.com commit -qm start
`
const NPM = `#!/bin/bash
if [ "$1" = ci ]; then
  ln -s ${JSON.stringify(join(root, 'node_modules'))} node_modules
  cp ${JSON.stringify(join(root, 'worker-configuration.d.ts'))} . 2>/dev/null || true
  exit 0
fi
PATH="$REAL_PATH" exec npm "$@"
`

beforeAll(() => {
  mkdirSync(join(folder, 'bin'))
  for (const [name, script] of [
    ['git', GIT],
    ['npm', NPM],
  ] as const) {
    writeFileSync(
      join(folder, 'bin', name),
      `${script.replace('\n', `\nREAL_PATH=${JSON.stringify(process.env['PATH'])}\n`)}`,
    )
    chmodSync(join(folder, 'bin', name), 0o755)
  }
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const steps = stepsOf('contribute.md')

it('has steps', () => expect(steps.length).toBeGreaterThan(4))

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
  180_000,
)
