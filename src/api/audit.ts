import type { Ports } from '../ports.ts'
import type { RequestContext } from './request-context.ts'

/** Logs who changed what. Requests without the admin key are in the access log, with status 401. */
export function audit(
  { ports }: { readonly ports: Pick<Ports, 'log'> },
  { requestId, scope }: RequestContext,
  change: { readonly action: string } & Readonly<Record<string, unknown>>,
): void {
  ports.log.info('admin_action', { request_id: requestId, remote: scope.remoteAddress, ...change })
}
