/** One statement about real engines that can turn out false. */
import type { Environment } from './environment.ts'
import type { RealEngine } from './engine.ts'
import type { EngineName, FleetName } from './fleets.ts'
import type { GatewayKind, RunningGateway } from './gateway.ts'
import type { LmcacheServers } from './lmcache-servers.ts'
import type { Processes } from './processes.ts'
import type { Relay } from './relay.ts'

export interface Row {
  /** As typed on the command line. */
  readonly name: string
  /** The statement, as a sentence. */
  readonly says: string
  /** Only for rows without vLLM: the programs that are missing here, with how to build them; null: none. */
  missing?(): string | null
  /** What was seen, for the table. Throws when the statement is false, with what was seen instead. */
  run(lab: Lab): Promise<string | Finding>
}

/** What was seen, where it takes more than a cell to say it. */
export interface Finding {
  readonly seen: string
  /** Markdown, e.g. a table: a section of the page. Without headings. */
  readonly detail: string
}

/** The statement is false; `detail` is for the page all the same. */
export class Refuted extends Error {
  readonly detail: string

  constructor({ seen, detail }: Finding) {
    super(seen)
    this.detail = detail
  }
}

/** What rows work with. Servers start when a row first asks for them and serve all that follow. */
export interface Lab {
  readonly environment: Environment
  readonly processes: Processes
  note(line: string): void
  /**
   * No more than two run at a time: what does not belong beside this one is stopped first. One that has died is
   * started again.
   */
  engine(name: EngineName): Promise<RealEngine>
  /** Ends it and starts it again, at the same address. */
  restart(name: EngineName): Promise<RealEngine>
  /** With the configuration of `gateway.ts`. `own`: one of that name beside the others before these engines. */
  gateway(kind: GatewayKind, fleet?: FleetName, own?: string): Promise<RunningGateway>
  /** Stands before an engine in the fleets that say so. */
  relay(name: EngineName): Promise<Relay>
  /** Beside `left` and `right`. */
  lmcache(): Promise<LmcacheServers>
  /** Where a file below test/vectors is. */
  vectorPath(file: string): string
  /** Writes a file below test/vectors; says whether it differs from what was there. */
  writeVector(file: string, text: string): 'new' | 'same' | 'changed'
  /** null: not recorded yet. */
  readVector(file: string): string | null
}

export function check(holds: boolean, otherwise: string): asserts holds {
  if (!holds) throw new Error(otherwise)
}
