/* later.c - a plugin of a later release, whose private functions have another version; with LIBRARY, that release's library. */
void verbs_register_driver_99(const void *operations);

#ifdef LIBRARY
void verbs_register_driver_99(const void *operations)
{
	(void)operations;
}
#else
__attribute__((constructor)) static void register_driver(void)
{
	verbs_register_driver_99(0);
}
#endif
