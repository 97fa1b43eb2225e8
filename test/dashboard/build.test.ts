import { execFile } from 'node:child_process'
import { readFileSync, readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'

const root = fileURLToPath(new URL('../..', import.meta.url))
const folder = `${root}dist/dashboard`
const files = () => readdirSync(folder).map((name) => [name, readFileSync(`${folder}/${name}`, 'latin1')])
const build = (env: NodeJS.ProcessEnv) =>
  promisify(execFile)(process.execPath, [`${root}scripts/build-dashboard.mjs`], { env: { ...process.env, ...env } })

describe('the build of the dashboard', () => {
  it('the build of the dashboard gives the same files whatever NODE_ENV is, so that a gateway that serves them loses none', async () => {
    const before = files()
    await build({ NODE_ENV: 'test' })
    expect(files()).toEqual(before)
  })
})
