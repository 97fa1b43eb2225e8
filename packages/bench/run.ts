/** `npm run bench -- NAME [--json FILE] [flags]`: runs packages/bench/NAME.ts, prints its table, writes its JSON. */
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { availableParallelism, cpus, totalmem } from 'node:os'
import { parseArgs } from './arguments.ts'
import type { Bench, BenchResult } from './result.ts'
import { cell, table } from './table.ts'

const folder = new URL('./', import.meta.url)
const { name, flags, args } = parseArgs(process.argv.slice(2))

if (name === null || !isBench(name)) {
  const known = readdirSync(folder)
    .flatMap((file) => (file.endsWith('.ts') ? [file.slice(0, -3)] : []))
    .filter(isBench)
  if (name !== null) console.error(`There is no benchmark named '${name}'.`)
  console.error(
    `Usage: npm run bench -- NAME [--json FILE] [flags]\nBenchmarks: ${known.sort().join(', ') || '(none)'}`,
  )
  process.exit(name === null ? 0 : 2)
}

const { default: bench } = (await import(new URL(`${name}.ts`, folder).href)) as { default: Bench }
const result = await bench({ flags, args, note: (line) => console.error(line) })
report(name, result)

/** A benchmark is a file in this folder with a default export; the others are helpers. */
function isBench(word: string): boolean {
  if (!/^[a-z][a-z0-9-]*$/.test(word) || !existsSync(new URL(`${word}.ts`, folder))) return false
  return /^export default /m.test(readFileSync(new URL(`${word}.ts`, folder), 'utf8'))
}

function report(benchName: string, { rows, headline }: BenchResult): void {
  console.log(table(rows))
  const figures = Object.entries(headline).map(([key, value]) => `${key} ${cell(value)}`)
  if (figures.length > 0) console.log(`${benchName}: ${figures.join(' · ')}`)
  const file = flags.json
  if (file === undefined) return
  if (file === true) throw new Error('--json needs a file name, e.g. --json result.json')
  writeFileSync(file, `${JSON.stringify({ name: benchName, machine: machine(), rows, headline }, null, 2)}\n`)
}

function machine(): Record<string, string | number> {
  return {
    cpu: cpus()[0]?.model ?? 'unknown',
    cores: availableParallelism(),
    memory_gib: Math.round(totalmem() / 2 ** 30),
    os: process.platform,
    node: process.version,
  }
}
