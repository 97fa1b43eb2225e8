/** Viewers of a gateway's dashboard in a process of their own. Messages: the number of viewers from now on. */
const url = process.argv[2]!
const open: AbortController[] = []
let views = 0
let bytes = 0

/** Reads the feed until it is closed. Resolves at the first view. */
function watch(): Promise<void> {
  const closed = new AbortController()
  open.push(closed)
  return new Promise((resolve, reject) => {
    const read = async () => {
      const { body } = await fetch(`${url}/v1/firstlight/live`, { signal: closed.signal })
      for await (const chunk of body!) {
        bytes += chunk.length
        views += Buffer.from(chunk).toString('latin1').split('event: view').length - 1
        if (views > 0) resolve()
      }
    }
    read().catch((error: unknown) => closed.signal.aborted || reject(error as Error))
  })
}

process.on('message', (wanted: number) => {
  const change = async () => {
    process.send!({ views, bytes })
    for (const closed of open.splice(wanted)) closed.abort()
    while (open.length < wanted) await watch()
    views = bytes = 0
    process.send!('ready')
  }
  void change()
})
