/** One statement about real engines that can be false. */
import type { Environment } from './environment.ts'
import type { RealEngine } from './engine.ts'
import type { EngineName } from './engine-spec.ts'
import type { FleetName } from './fleets.ts'
import type { GatewayKind, RunningGateway } from './gateway.ts'
import type { LmcacheServers } from './lmcache-servers.ts'
import type { Processes } from './processes.ts'
import type { Relay } from './relay.ts'

export interface Row {
  /** As typed on the command line. */
  readonly name: string
  /** The statement, as a sentence. */
  readonly says: string
  /**
   * Only for rows without vLLM: the programs that are missing here, with how to get them; null: none. May install them.
   */
  missing?(lab: Lab): string | null | Promise<string | null>
  /** Observed result, for the table. Throws with the observed result if the statement is false. */
  run(lab: Lab): Promise<string | Finding>
}

/** A result that needs more than a table cell. */
export interface Finding {
  readonly seen: string
  /** Markdown, e.g. a table: a section of the page. Without headings. */
  readonly detail: string
  /** Measured figures by name, for `--json`. */
  readonly figures?: Readonly<Record<string, number>>
}

/** The statement is false; the page shows its finding in any case. */
export class RefutedError extends Error {
  readonly finding: Finding

  constructor(finding: Finding) {
    super(finding.seen)
    this.finding = finding
  }
}

/** Environment of rows. Servers start at the first request for them and serve all later rows. */
export interface Lab {
  readonly environment: Environment
  readonly processes: Processes
  note(line: string): void
  /**
   * At most two run at a time: servers that this one cannot run beside are stopped first. An ended one is started
   * again.
   */
  engine(name: EngineName): Promise<RealEngine>
  /** Stops it and starts it again, at the same address. */
  restart(name: EngineName): Promise<RealEngine>
  /** With the configuration of `gateway.ts`. `own`: another gateway of that name in front of these engines. */
  gateway(kind: GatewayKind, fleet?: FleetName, own?: string): Promise<RunningGateway>
  /** Relay in front of an engine, in the fleets that request it. */
  relay(name: EngineName): Promise<Relay>
  /** Servers of `left` and `right`. */
  lmcache(): Promise<LmcacheServers>
  /** Path of a file below test/vectors. */
  vectorPath(file: string): string
  /** Writes a file below test/vectors. Returns whether it differs from the previous one. */
  writeVector(file: string, text: string): 'new' | 'same' | 'changed'
  /** null: not recorded yet. */
  readVector(file: string): string | null
}

export function check(holds: boolean, otherwise: string): asserts holds {
  if (!holds) throw new Error(otherwise)
}
