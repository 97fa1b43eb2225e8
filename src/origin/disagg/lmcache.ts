import type { EngineTarget } from '../../ports.ts'
import type { Deal } from '../attempt-failed.ts'
import type { HandOver } from './hand-over.ts'
export async function lmcacheLeg(_deal: Deal, _prefill: EngineTarget): Promise<HandOver> { throw new Error('todo') }
