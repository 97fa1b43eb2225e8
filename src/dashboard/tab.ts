/** Which view of the page is open: the part of the address behind `#`, so that it can be linked and reloaded. */
import { useEffect, useState } from 'preact/hooks'

export type Tab = 'fleet' | 'keys' | 'playground'

export const TABS: readonly (readonly [tab: Tab, title: string])[] = [
  ['fleet', 'Fleet'],
  ['keys', 'Keys'],
  ['playground', 'Playground'],
]

/** Other anchors are rows and sections of the fleet. */
const tabOf = (hash: string): Tab => TABS.find(([tab]) => hash === `#${tab}`)?.[0] ?? 'fleet'

export function useTab(): Tab {
  const [tab, setTab] = useState(tabOf(location.hash))
  useEffect(() => {
    const follow = () => setTab(tabOf(location.hash))
    addEventListener('hashchange', follow)
    return () => removeEventListener('hashchange', follow)
  }, [])
  return tab
}
