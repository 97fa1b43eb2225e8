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

export type EngineName = 'a' | 'b' | 'nixl'

/** What rows work with. Servers start when a row first asks for them and serve all that follow. */
export interface Lab {
  readonly environment: Environment
  readonly processes: Processes
  note(line: string): void
  /** `nixl` is like the others with the NIXL connector; it takes the place of b, so that no more than two run. */
  engine(name: EngineName): Promise<RealEngine>
  /** Before engine a and another one (b), with the configuration of `gateway.ts`. */
  gateway(kind: GatewayKind, other?: 'b' | 'nixl'): Promise<RunningGateway>
  /** Where a file below test/vectors is. */
  vectorPath(file: string): string
  /** Writes a file below test/vectors; says whether it differs from what was there. */
  writeVector(file: string, text: string): 'new' | 'same' | 'changed'
}

export function check(holds: boolean, otherwise: string): asserts holds {
  if (!holds) throw new Error(otherwise)
}
