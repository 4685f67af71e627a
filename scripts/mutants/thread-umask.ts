/** Stryker runs tests in threads, which cannot set the umask. The sockets of tests lie in folders of their own. */
process.umask = (): number => 0o077;
