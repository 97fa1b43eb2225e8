/** How bin/firstlight.mjs starts Node. */
import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, describe, expect, it } from 'vitest'
import { servingFlags } from '../../bin/serving-flags.mjs'

const bin = fileURLToPath(new URL('../../bin/firstlight.mjs', import.meta.url))
const folder = mkdtempSync(join(tmpdir(), 'firstlight-bin-'))
const teller = join(folder, 'teller.mjs')
writeFileSync(teller, 'console.error(`flags: ${process.execArgv.join(" ")}`)')
afterAll(() => rmSync(folder, { recursive: true }))

/** Flags of each Node that ran, in order, and what was printed. */
async function start(flags: readonly string[], ...argv: string[]): Promise<{ seen: string[]; out: string }> {
  const env = { ...process.env, NODE_OPTIONS: `--import=${pathToFileURL(teller).href}` }
  const { stdout, stderr } = await promisify(execFile)(process.execPath, [...flags, bin, ...argv], { env })
  return { seen: stderr.split('\n').filter((line) => line.startsWith('flags: ')).map((line) => line.slice('flags: '.length)), out: stdout }
}

describe('bin/firstlight.mjs', () => {
  it('serves with the flags that suit a gateway', async () => {
    const { seen, out } = await start([], 'serve', '--help')
    expect(seen).toEqual(['', servingFlags.join(' ')])
    expect(out).toContain('firstlight serve')
  })

  it('does so too where a configuration is named and no command', async () => {
    expect((await start([], '--config', 'x', '--help')).seen).toEqual(['', servingFlags.join(' ')])
  })

  it('leaves Node to whoever gives it flags', async () => {
    expect((await start(['--stack-size=900'], 'serve', '--help')).seen).toEqual(['--stack-size=900'])
  })

  it('starts other commands as they are', async () => {
    expect((await start([], 'check', '--help')).seen).toEqual([''])
  })
})
