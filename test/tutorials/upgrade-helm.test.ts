/** The steps need `helm` on PATH or FIRSTLIGHT_HELM, and no cluster; without it they are skipped. */
import { spawnSync } from 'node:child_process'
import { mkdirSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { it } from 'vitest'
import { testNodePage } from './node-page.ts'
import { root } from './run-page.ts'

const given = process.env['FIRSTLIGHT_HELM']

/** The chart as in a checkout, and Helm as `helm`. */
function prepare(folder: string, path: string): string {
  symlinkSync(join(root, 'deploy'), join(folder, 'deploy'))
  if (given === undefined) return path
  mkdirSync(join(folder, 'bin'))
  symlinkSync(given, join(folder, 'bin/helm'))
  return `${join(folder, 'bin')}:${path}`
}

if (spawnSync(given ?? 'helm', ['version']).status === 0) testNodePage('upgrade-helm.md', prepare)
else it.skip('the upgrade with Helm needs the program', () => undefined)
