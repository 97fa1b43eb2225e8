import type { Deal } from '../attempt-failed.ts'
import type { HandOver } from './hand-over.ts'
export async function encodeStage(_deal: Deal, _encoders: readonly string[]): Promise<HandOver | null> { return null }
