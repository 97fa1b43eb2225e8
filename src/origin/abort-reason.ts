import type { RequestScope } from '../ports.ts'

/**
 * The reason a request without a client ended: the client disconnected, or the gateway aborted it while shutting down
 * (`isCut`, Node only).
 */
export const abortReason = ({ isCut }: RequestScope): 'client_gone' | 'abandoned' =>
  isCut?.() === true ? 'abandoned' : 'client_gone'
