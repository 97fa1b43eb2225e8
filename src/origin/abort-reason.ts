import type { RequestScope } from '../ports/request-scope.ts'

/**
 * Reason for the end of a request without a client: the client disconnected, or the gateway aborted it while shutting
 * down (`isClosing`, Node only).
 */
export const abortReason = ({ isClosing }: RequestScope): 'client_gone' | 'abandoned' =>
  isClosing?.() === true ? 'abandoned' : 'client_gone'
