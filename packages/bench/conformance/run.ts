/** `npm run conformance [-- row…]`: checks statements about real engines with real engines. */
import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { join } from 'node:path'
import { parseArgs } from '../arguments.ts'
import { table } from '../table.ts'
import { cacheFolder, prepareEnvironment } from './environment.ts'
import { createLab } from './lab.ts'
import { jsonReport } from './json-report.ts'
import { mergeResults, readPage, readVersions, writePage } from './page.ts'
import type { RowResult } from './page.ts'
import { Processes } from './processes.ts'
import { RefutedError } from './row.ts'
import type { Finding, Lab, Row } from './row.ts'
import { rows } from './rows.ts'

const root = fileURLToPath(new URL('../../../', import.meta.url))
const page = fileURLToPath(new URL('RESULTS.md', import.meta.url))
const help = `npm run conformance [-- row…] [--list] [--keep] [--attach a=URL,b=URL] [--json FILE]

Checks what Firstlight says about real engines against real engines: vLLM, LMCache and NIXL on this machine's CPU, with
made-up weights. The first run installs them into .cache/conformance (about 2 minutes, 7 GB); Python 3.11 to 3.13 is needed.
Writes packages/bench/conformance/RESULTS.md and test/vectors. A row is named in full or by its beginning: \`npm run conformance -- record\`.

  --list    the rows and what they say
  --keep    leave the servers running after the rows, until Ctrl-C
  --attach  use engines that run already (from --keep)
  --json    also writes the results to FILE, with the measured figures under \`headline\``

/** Stop requested: later results of rows are ignored. */
let stopping = false
/** Keeps the process alive for servers that continue. */
let keeping: NodeJS.Timeout | undefined

const { flags, name, args } = parseArgs(process.argv.slice(2).map(bareFlag))
const prefixes = [...(name === null ? [] : [name]), ...args]
const chosen = prefixes.length === 0 ? rows : rows.filter((row) => prefixes.some((word) => row.name.startsWith(word)))

if (flags.help !== undefined) console.log(help)
else if (flags.list !== undefined) for (const row of rows) console.log(`${row.name.padEnd(28)} ${row.says}`)
else if (flags.json === true) {
  console.error('--json needs a file name, e.g. --json conformance.json')
  process.exitCode = 2
} else if (chosen.length === 0) {
  console.error(`There is no row named '${prefixes.join(' ')}'. npm run conformance -- --list shows them.`)
  process.exitCode = 2
} else process.exitCode = await main(chosen)

function note(line: string): void {
  console.error(line)
}

/** Flags without a value, so that `--keep record` names a row. */
function bareFlag(word: string): string {
  return ['--help', '--list', '--keep'].includes(word) ? `${word}=` : word
}

async function main(picked: readonly Row[]): Promise<number> {
  const processes = new Processes(join(cacheFolder, 'logs'), note)
  const interrupted = new Promise<never>((_, reject) => {
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
      process.once(signal, () => {
        stopping = true
        reject(new Error(`stopped by ${signal}`))
      })
    }
  })
  interrupted.catch(() => {})
  process.once('exit', () => processes.killAll())
  try {
    return await Promise.race([work(picked, processes), interrupted])
  } catch (error) {
    console.error(error instanceof Error ? error.message : error)
    return 1
  } finally {
    note('stopping what was started …')
    clearInterval(keeping)
    await processes.stopAll()
  }
}

async function work(picked: readonly Row[], processes: Processes): Promise<number> {
  // Rows with their own programs need no vLLM.
  const environment = picked.every((row) => row.missing !== undefined)
    ? { python: '', folder: cacheFolder, bin: (program: string) => program, versions: readVersions(readPageText()) }
    : await prepareEnvironment(processes)
  const lab = createLab({ environment, processes, note, attached: attachments() })
  const results: RowResult[] = []
  for (const row of picked) {
    const missing = (await row.missing?.(lab)) ?? null
    if (missing !== null) {
      note(`skipped ${row.name}: ${missing}`)
      continue
    }
    const result = await runRow(row, lab)
    // Its servers were stopped.
    if (stopping) return 1
    results.push(result)
    // After each row, so that results are kept if the run stops.
    const merged = mergeResults(
      readPage(readPageText()),
      results,
      rows.map(({ name: known }) => known),
    )
    writeFileSync(page, writePage(merged, rows, environment.versions))
    if (typeof flags.json === 'string') writeFileSync(flags.json, `${JSON.stringify(jsonReport(results), null, 1)}\n`)
  }
  console.log(
    table(
      results.map(({ name: row, passed, seen, seconds }) => ({
        row,
        result: passed ? 'pass' : 'FAIL',
        s: Math.round(seconds),
        seen,
      })),
    ),
  )
  const failed = results.filter((result) => !result.passed).length
  console.log(
    `conformance: ${results.length - failed} of ${results.length} rows passed; packages/bench/conformance/RESULTS.md is written`,
  )
  if (flags.keep !== undefined) {
    note('the servers go on until Ctrl-C')
    keeping = setInterval(() => {}, 60_000)
    await new Promise(() => {})
  }
  return failed === 0 ? 0 : 1
}

async function runRow(row: Row, lab: Lab): Promise<RowResult> {
  const began = performance.now()
  const result = (passed: boolean, { seen, detail, figures = {} }: Finding): RowResult => {
    lab.note(`${passed ? 'pass' : 'FAIL'} ${row.name}: ${seen.split('\n')[0]}`)
    if (detail !== '') lab.note(detail)
    return {
      name: row.name,
      passed,
      seen: oneLine(seen),
      detail,
      seconds: (performance.now() - began) / 1000,
      date: new Date().toISOString().slice(0, 10),
      figures,
    }
  }
  lab.note(`${row.name} …`)
  let timer: NodeJS.Timeout | undefined
  const limit = new Promise<never>(
    (_, reject) => (timer = setTimeout(() => reject(new Error('took more than 20 minutes')), 1_200_000)),
  )
  try {
    const found = await Promise.race([row.run(lab), limit])
    return result(true, typeof found === 'string' ? { seen: found, detail: '' } : found)
  } catch (error) {
    if (error instanceof Error) lab.note(error.message.split('\n').slice(0, 12).join('\n'))
    if (error instanceof RefutedError) return result(false, error.finding)
    return result(false, { seen: error instanceof Error ? error.message : String(error), detail: '' })
  } finally {
    clearTimeout(timer)
  }
}

/** For a table cell: one line, no paths of this machine. */
function oneLine(text: string): string {
  return text.replaceAll(cacheFolder, '…').replaceAll(root, '').replaceAll(/\s+/g, ' ').slice(0, 300)
}

function attachments(): Record<string, string> {
  if (typeof flags.attach !== 'string') return {}
  return Object.fromEntries(flags.attach.split(',').map((pair) => pair.split('=', 2) as [string, string]))
}

function readPageText(): string {
  try {
    return readFileSync(page, 'utf8')
  } catch {
    return ''
  }
}
