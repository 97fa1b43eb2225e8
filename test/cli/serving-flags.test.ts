/** How bin/firstlight.mjs starts Node. */
import { execFile } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, describe, expect, it } from 'vitest'
import { servingFlags } from '../../bin/serving-flags.mjs'

const bin = fileURLToPath(new URL('../../bin/firstlight.mjs', import.meta.url))
const folder = mkdtempSync(join(tmpdir(), 'firstlight-bin-'))
const teller = join(folder, 'teller.mjs')
writeFileSync(
  teller,
  'console.error(`flags: ${process.execArgv.join(" ")}`); console.error(`arenas: ${process.env.MALLOC_ARENA_MAX}`)',
)
afterAll(() => rmSync(folder, { recursive: true }))

/** Flags of each started Node process in order, its limit of glibc arenas, and its output. */
async function start(
  flags: readonly string[],
  ...argv: string[]
): Promise<{ seen: string[]; arenas: string[]; out: string }> {
  const env = { ...process.env, NODE_OPTIONS: `--import=${pathToFileURL(teller).href}` }
  const { stdout, stderr } = await promisify(execFile)(process.execPath, [...flags, bin, ...argv], { env })
  const printed = (what: string): string[] =>
    stderr
      .split('\n')
      .filter((line) => line.startsWith(`${what}: `))
      .map((line) => line.slice(what.length + 2))
  return { seen: printed('flags'), arenas: printed('arenas'), out: stdout }
}

describe('bin/firstlight.mjs', () => {
  it('bin/firstlight.mjs serves with the flags that suit a gateway', async () => {
    const { seen, out } = await start([], 'serve', '--help')
    expect(seen).toEqual(['', servingFlags.join(' ')])
    expect(out).toContain('firstlight serve')
  })

  it('starts directly if a configuration is named without a command', async () => {
    expect((await start([], '--config', 'x', '--help')).seen).toEqual(['', servingFlags.join(' ')])
  })

  it('bin/firstlight.mjs lets its threads share memory unless configured otherwise', async () => {
    const { MALLOC_ARENA_MAX: before } = process.env
    delete process.env.MALLOC_ARENA_MAX
    const unconfigured = await start([], 'serve', '--help')
    process.env.MALLOC_ARENA_MAX = '7'
    const configured = await start([], 'serve', '--help')
    if (before === undefined) delete process.env.MALLOC_ARENA_MAX
    else process.env.MALLOC_ARENA_MAX = before
    expect(unconfigured.arenas).toEqual(['undefined', '2'])
    expect(configured.arenas).toEqual(['7', '7'])
  })

  it('bin/firstlight.mjs does not restart Node if the user passes Node flags', async () => {
    expect((await start(['--stack-size=900'], 'serve', '--help')).seen).toEqual(['--stack-size=900'])
  })

  it('bin/firstlight.mjs starts other commands as they are', async () => {
    expect((await start([], 'check', '--help')).seen).toEqual([''])
  })
})

describe('bin/firstlight.mjs in a checkout', () => {
  const checkout = join(folder, 'checkout')
  const files = [
    'bin/program.ts',
    'package-lock.json',
    'src/node.ts',
    'src/deep/part.ts',
    'packages/replay/src/part.ts',
  ]
  const folders = ['src/deep', 'src', 'packages/replay/src', 'bin']
  const programs = readdirSync(dirname(bin)).map((name) => `bin/${name}`)
  const sources = [...new Set([...files, ...folders, ...programs])]
  cpSync(dirname(bin), join(checkout, 'bin'), { recursive: true })
  for (const name of ['src/deep', 'packages/replay/src', 'dist/node'])
    mkdirSync(join(checkout, name), { recursive: true })
  for (const name of files) writeFileSync(join(checkout, name), 'console.log("sources")')
  writeFileSync(join(checkout, 'dist/node/program.mjs'), 'console.log("bundle")')

  /** Program that runs if this file was modified after the bundle was built. */
  async function ran(touched: string | null): Promise<string> {
    const at = (name: string, second: number) => utimesSync(join(checkout, name), second, second)
    at('dist/node/program.mjs', 2_000)
    for (const name of sources) at(name, name === touched ? 3_000 : 1_000)
    return (
      await promisify(execFile)(process.execPath, [join(checkout, 'bin', 'firstlight.mjs'), 'check'])
    ).stdout.trim()
  }

  it('bin/firstlight.mjs in a checkout runs the bundle while all it is made of is older', async () => {
    expect(await ran(null)).toBe('bundle')
  })

  it.each(sources)('bin/firstlight.mjs in a checkout runs the sources once there is a newer %s', async (touched) => {
    expect(await ran(touched)).toBe('sources')
  })
})
