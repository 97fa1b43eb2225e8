import type { RequestScope } from '../ports.ts'

/** Nobody is left to answer: the client has gone, or its request is cut because the gateway ends, which a Worker never does (`import.meta.bare`). */
export const goneAs = ({ isCut }: RequestScope): 'client_gone' | 'abandoned' => (isCut?.() === true ? 'abandoned' : 'client_gone')
