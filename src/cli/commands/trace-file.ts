/** Reads `--trace FILE [--limit N]` for replay and load. */
import { createHash } from 'node:crypto'
import { basename } from 'node:path'
import { importTrace } from '../../simulator/replay/importers.ts'
import { readTrace, type Trace, TraceError } from '../../simulator/replay/trace.ts'
import { UsageError, type Args } from './command.ts'
import { readInput } from './args.ts'

const SCHEMA = 'docs/replay.md describes the formats.'

/** Reads a trace. Throws a UsageError that names the file and the invalid line. */
export function traceIn(file: string, args: Args): Trace {
  const limit = args.whole('limit', { min: 1, max: 1e9 })
  const bytes = readInput(file, `Give --trace a file in Mooncake’s schema or another known format; ${SCHEMA}`)
  const text = bytes.toString('utf8')
  try {
    const options = limit === null ? {} : { limit }
    const trace = importTrace(basename(file), text, options) ?? readTrace(basename(file), text, options)
    if (trace.requests.length === 0)
      throw new UsageError(`${file} contains no request.`, `One JSON object a line; ${SCHEMA}`)
    return { ...trace, sha256: createHash('sha256').update(bytes).digest('hex') }
  } catch (error) {
    throw error instanceof TraceError ? new UsageError(`${file}: ${error.message}.`, SCHEMA) : error
  }
}
