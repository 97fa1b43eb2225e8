import { createHash } from 'node:crypto'
import { basename } from 'node:path'
import { readInput } from '../../../../src/platform/node/usage-error.ts'
import { importTrace } from '../replay/importers.ts'
import { TraceError } from '../replay/trace-error.ts'
import { readTrace, type Trace } from '../replay/trace.ts'
import type { Args } from '../../../../src/cli/commands/command.ts'
import { UsageError } from '../../../../src/platform/node/usage-error.ts'

const TRACE_FORMATS = 'docs/replay.md describes the formats.'

/** Reads `--trace FILE [--limit N]`. Throws a UsageError that names the file and the invalid line. */
export function traceIn(file: string, args: Args): Trace {
  const limit = args.whole('limit', { min: 1, max: 1e9 })
  const bytes = readInput(file, `Give --trace a file in Mooncake’s schema or another known format; ${TRACE_FORMATS}`)
  const text = bytes.toString('utf8')
  try {
    const options = limit === null ? {} : { limit }
    const trace = importTrace(basename(file), text, options) ?? readTrace(basename(file), text, options)
    if (trace.requests.length === 0)
      throw new UsageError(`${file} contains no request.`, `One JSON object a line; ${TRACE_FORMATS}`)
    return { ...trace, sha256: createHash('sha256').update(bytes).digest('hex') }
  } catch (error) {
    throw error instanceof TraceError ? new UsageError(`${file}: ${error.message}.`, TRACE_FORMATS) : error
  }
}
