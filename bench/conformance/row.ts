/** One statement about real engines that can turn out false. */
import type { Environment } from './environment.ts'
import type { RealEngine } from './engine.ts'
import type { GatewayKind, RunningGateway } from './gateway.ts'
import type { Processes } from './processes.ts'

export interface Row {
  /** As typed on the command line. */
  readonly name: string
  /** The statement, as a sentence. */
  readonly says: string
  /** What was seen, for the table. Throws when the statement is false, with what was seen instead. */
  run(lab: Lab): Promise<string>
}

/** `nixl`, `prefill` and `decode` run the NIXL connector. */
export type EngineName = 'a' | 'b' | 'nixl' | 'prefill' | 'decode'
/** Engines behind a gateway: a and b · a and nixl · prefill and decode, in these roles. */
export type Pair = 'plain' | 'nixl' | 'split'

/** What rows work with. Servers start when a row first asks for them and serve all that follow. */
export interface Lab {
  readonly environment: Environment
  readonly processes: Processes
  note(line: string): void
  /** No more than two run at a time: what does not belong beside this one is stopped first. */
  engine(name: EngineName): Promise<RealEngine>
  /** With the configuration of `gateway.ts`. */
  gateway(kind: GatewayKind, pair?: Pair): Promise<RunningGateway>
  /** Where a file below test/vectors is. */
  vectorPath(file: string): string
  /** Writes a file below test/vectors; says whether it differs from what was there. */
  writeVector(file: string, text: string): 'new' | 'same' | 'changed'
}

export function check(holds: boolean, otherwise: string): asserts holds {
  if (!holds) throw new Error(otherwise)
}
