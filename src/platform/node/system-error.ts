/** Explains a system error as one line with a next step; null for other errors. */
export function explainSystemError(error: unknown): string | null {
  if (!(error instanceof Error) || !('code' in error)) return null
  const { port, address, path } = error as { port?: number; address?: string; path?: string }
  const place = address === undefined ? `port ${port}` : `${address}:${port}`
  switch (error.code) {
    case 'EADDRINUSE':
      return (
        `Another process listens on ${place} already. Stop it, or choose another port: with --listen for the ` +
        'gateway (127.0.0.1:0 takes a free one), with ttft.listen for reports.'
      )
    case 'EACCES':
      if (port === undefined) return `No permission to read or write ${path ?? 'a file'}. Check its permissions.`
      return `Not allowed to listen on ${place}: ports below 1024 need privileges. Choose a higher one with --listen.`
    case 'EADDRNOTAVAIL':
      return `This machine has no address ${address}. Listen on 127.0.0.1, or on 0.0.0.0 for all of its addresses.`
    case 'ENOTFOUND':
      return (
        `The name ${(error as { hostname?: string }).hostname ?? address} cannot be resolved. Listen on an ` +
        'address instead.'
      )
    case 'ENOENT':
      return path === undefined ? null : `There is no file ${path}.`
    case 'EISDIR':
      return `${path ?? 'That'} is a folder, not a file.`
    default:
      return null
  }
}
