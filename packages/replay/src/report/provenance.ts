import type { Trace } from '../replay/trace.ts'
import type { Args, Command } from '../../../../src/cli/commands/command.ts'
import { versionText } from '../../../../src/cli/version-text.ts'

/** What a reader needs to cite or repeat a report. */
export interface Provenance {
  readonly command: string
  readonly version: string
  /** Name of the trace or workload. */
  readonly trace: string
  /** SHA-256 of the trace file. null: the workload was generated. */
  readonly sha256: string | null
  /** Hardware profile of a replay, or address of a measured gateway. */
  readonly profile: string
  /** ISO 8601, UTC, to the second. */
  readonly date: string
}

export function provenanceOf(
  command: Command,
  args: Args,
  { trace, profile }: { readonly trace: Pick<Trace, 'name' | 'sha256'>; readonly profile: string },
): Provenance {
  return {
    command: commandText(command, args),
    version: versionText(),
    trace: trace.name,
    sha256: trace.sha256 ?? null,
    profile,
    date: `${new Date().toISOString().slice(0, 19)}Z`,
  }
}

/** Flags whose values are secret. */
const SECRET = new Set(['key'])

/** Rebuilds the command line, quoted for a shell. Values of secret flags are left out. */
function commandText(command: Command, args: Args): string {
  const flags = Object.entries(command.flags).flatMap(([name, { type }]) => {
    if (type === 'boolean') return args.on(name) ? [`--${name}`] : []
    return args.texts(name).map((value) => `--${name} ${SECRET.has(name) ? '…' : quoted(value)}`)
  })
  return ['firstlight', command.name, ...flags].join(' ')
}

const quoted = (value: string): string =>
  /^[\w@%+=:,./-]+$/.test(value) ? value : `'${value.replaceAll("'", String.raw`'\''`)}'`
