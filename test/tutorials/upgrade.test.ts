import { testNodePage } from './node-page.ts'

testNodePage('upgrade.md')
